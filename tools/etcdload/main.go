// Command etcdload puts load on an etcd cluster, for `gregale bench kv --against etcd`: puts, or
// linearizable gets, by a number of clients that each wait for their answer. It prints one JSON
// object: {"per_s": ..., "p50_ns": ..., "p99_ns": ...}.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// How many clients share one connection: etcd's own benchmark does the same, and more connections
// make it no faster.
const clientsPerConnection = 10

func main() {
	log.SetFlags(0)
	endpoints := flag.String("endpoints", "127.0.0.1:2379", "client addresses, separated by commas")
	op := flag.String("op", "put", "put or get")
	clients := flag.Int("clients", 50, "how many wait for an answer at a time")
	valueBytes := flag.Int("value-bytes", 32, "the size of values")
	span := flag.Duration("span", 2*time.Second, "how long to measure; a quarter of it warms up")
	flag.Parse()
	if *op != "put" && *op != "get" {
		log.Fatalf("-op %s: use put or get", *op)
	}

	addresses := leaderFirst(strings.Split(*endpoints, ","))
	var connections []*clientv3.Client
	for n := 0; n*clientsPerConnection < *clients; n++ {
		connection, err := clientv3.New(clientv3.Config{
			Endpoints:   []string{addresses[n%len(addresses)]},
			DialTimeout: 10 * time.Second,
		})
		if err != nil {
			log.Fatalf("cannot connect to %s: %v", addresses[n%len(addresses)], err)
		}
		defer connection.Close()
		connections = append(connections, connection)
	}

	value := strings.Repeat("x", *valueBytes)
	ctx, cancel := context.WithTimeout(context.Background(), *span*5/4+30*time.Second)
	defer cancel()
	if _, err := connections[0].Put(ctx, "key:0000", value); err != nil {
		log.Fatalf("cannot put: %v", err)
	}

	began := time.Now().Add(*span / 4)
	until := began.Add(*span)
	times := make([][]time.Duration, *clients)
	var group sync.WaitGroup
	for n := range *clients {
		group.Add(1)
		go func() {
			defer group.Done()
			connection := connections[n/clientsPerConnection]
			key := fmt.Sprintf("key:%04d", n)
			for {
				asked := time.Now()
				if asked.After(until) {
					return
				}
				var err error
				if *op == "put" {
					_, err = connection.Put(ctx, key, value)
				} else {
					_, err = connection.Get(ctx, key)
				}
				if err != nil {
					log.Fatalf("cannot %s: %v", *op, err)
				}
				if answered := time.Now(); asked.After(began) && !answered.After(until) {
					times[n] = append(times[n], answered.Sub(asked))
				}
			}
		}()
	}
	group.Wait()

	var all []time.Duration
	for _, some := range times {
		all = append(all, some...)
	}
	if len(all) == 0 {
		log.Fatalf("nothing was answered in %v", *span)
	}
	sort.Slice(all, func(a, b int) bool { return all[a] < all[b] })
	result := map[string]float64{
		"per_s":  float64(len(all)) / span.Seconds(),
		"p50_ns": float64(all[len(all)/2]),
		"p99_ns": float64(all[len(all)*99/100]),
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		log.Fatal(err)
	}
}

// leaderFirst puts the address of the member that leads in front, so that the first connection needs
// no forwarding: with few clients that is etcd at its best.
func leaderFirst(addresses []string) []string {
	client, err := clientv3.New(clientv3.Config{Endpoints: addresses, DialTimeout: 10 * time.Second})
	if err != nil {
		log.Fatalf("cannot connect to %s: %v", strings.Join(addresses, ","), err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		for n, address := range addresses {
			status, err := client.Status(ctx, address)
			if err == nil && status.Leader == status.Header.MemberId {
				return append(append([]string{address}, addresses[:n]...), addresses[n+1:]...)
			}
		}
		// A new cluster elects its leader in a second or two.
		select {
		case <-ctx.Done():
			log.Fatalf("none of %s leads", strings.Join(addresses, ","))
		case <-time.After(100 * time.Millisecond):
		}
	}
}
