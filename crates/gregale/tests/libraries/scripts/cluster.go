// A client in cluster mode finds all members, and goes on when one dies.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

const patience = 60 * time.Second

func patiently(what string, call func() error) {
	deadline := time.Now().Add(patience)
	for {
		err := call()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			panic(fmt.Sprintf("%s: %v", what, err))
		}
		fmt.Println("again after", err)
		time.Sleep(100 * time.Millisecond)
	}
}

func main() {
	var members []string
	for _, port := range os.Args[1:] {
		members = append(members, "127.0.0.1:"+port)
	}
	ctx := context.Background()
	lines := bufio.NewReader(os.Stdin)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: members})
	key := func(n int) string { return fmt.Sprintf("key:%d", n) }
	set := func(value string) {
		for n := 0; n < 60; n++ {
			patiently("SET", func() error { return client.Set(ctx, key(n), value, 0).Err() })
		}
	}
	set("before")
	script := redis.NewScript("return redis.call('GET', KEYS[1])")
	patiently("EVALSHA", func() error { return script.Run(ctx, client, []string{key(7)}).Err() })
	for round := 0; round < 3; round++ {
		fmt.Println("kill")
		if _, err := lines.ReadString('\n'); err != nil {
			panic(err)
		}
		value := fmt.Sprintf("after %d", round)
		set(value)
		for n := 0; n < 60; n++ {
			var found string
			patiently("GET", func() (err error) {
				found, err = client.Get(ctx, key(n)).Result()
				return err
			})
			if found != value {
				panic(fmt.Sprintf("%s is %s", key(n), found))
			}
		}
	}
	fmt.Println("well")
}
