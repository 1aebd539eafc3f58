package main

import (
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// value is what a key holds; nil is the absence of a value.
type value = *string

// equal compares two values.
func equal(a, b value) bool {
	return (a == nil) == (b == nil) && (a == nil || *a == *b)
}

// number reads a value as Redis does: canonical decimals of 64 bits; no value counts as 0.
func number(v value) (int64, bool) {
	if v == nil {
		return 0, true
	}
	n, err := strconv.ParseInt(*v, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == *v
}

// execute returns what the key holds after the command, and the answer.
func execute(c command, before value) (value, reply) {
	written := string(c.Value)
	switch c.Op {
	case "get":
		return before, answer(before)
	case "set":
		return &written, reply{word: "ok"}
	case "swap":
		return &written, answer(before)
	case "cas":
		done := equal(before, (*string)(c.Expect.value))
		if done {
			return &written, reply{done: &done}
		}
		return before, reply{done: &done}
	case "append":
		if before != nil {
			written = *before + written
		}
		length := int64(len(written))
		return &written, reply{number: &length}
	case "incr":
		n, ok := number(before)
		if !ok || (c.By > 0 && n > math.MaxInt64-c.By) || (c.By < 0 && n < math.MinInt64-c.By) {
			return before, reply{word: "refused"}
		}
		n += c.By
		written = strconv.FormatInt(n, 10)
		return &written, reply{number: &n}
	case "delete":
		done := before != nil
		return nil, reply{done: &done}
	default:
		panic("unknown op " + c.Op)
	}
}

func answer(v value) reply {
	return reply{value: nullable{present: true, value: (*text)(v)}}
}

// same compares two answers.
func same(a, b reply) bool {
	switch {
	case a.word != b.word || a.value.present != b.value.present:
		return false
	case (a.done == nil) != (b.done == nil) || (a.number == nil) != (b.number == nil):
		return false
	case a.done != nil && *a.done != *b.done:
		return false
	case a.number != nil && *a.number != *b.number:
		return false
	default:
		return equal((*string)(a.value.value), (*string)(b.value.value))
	}
}

// input is what an operation asks for, and when it may.
type input struct {
	commands []command
	turn     turn
}

// turn is the place of an unknown operation among its twins; without a name it has none.
type turn struct {
	name string
	nth  int
}

// state is what keys hold and how many of which twins had their turn, each in one canonical string,
// so that == compares it.
type state struct {
	values string
	turns  string
}

// decode is the inverse of encode.
func decode(s string) map[string]value {
	values := map[string]value{}
	for len(s) > 0 {
		var parts [2]string
		for i := range parts {
			colon := strings.IndexByte(s, ':')
			length, err := strconv.Atoi(s[:colon])
			if err != nil {
				panic(err)
			}
			parts[i] = s[colon+1 : colon+1+length]
			s = s[colon+1+length:]
		}
		values[parts[0]] = &parts[1]
	}
	return values
}

// encode writes the keys that hold something, in order, as netstrings.
func encode(values map[string]value) string {
	keys := make([]string, 0, len(values))
	for key, v := range values {
		if v != nil {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	var out strings.Builder
	for _, key := range keys {
		for _, part := range []string{key, *values[key]} {
			out.WriteString(strconv.Itoa(len(part)))
			out.WriteByte(':')
			out.WriteString(part)
		}
	}
	return out.String()
}

// model is the specification in porcupine's terms.
var model = porcupine.Model{
	Partition: partition,
	Init:      func() interface{} { return state{} },
	Step: func(before, asked, output interface{}) (bool, interface{}) {
		turns, ok := take(before.(state).turns, asked.(input).turn)
		if !ok {
			return false, before
		}
		values := decode(before.(state).values)
		replies := output.([]reply)
		for i, c := range asked.(input).commands {
			after, reply := execute(c, values[string(c.Key)])
			// Without an answer, any will do.
			if replies != nil && !same(reply, replies[i]) {
				return false, before
			}
			values[string(c.Key)] = after
		}
		return true, state{encode(values), turns}
	},
}

// take returns the turns after this one, or false if it is not its turn.
func take(turns string, its turn) (string, bool) {
	if its.name == "" {
		return turns, true
	}
	taken := decode(turns)
	had, _ := number(taken[its.name])
	if had != int64(its.nth) {
		return turns, false
	}
	next := strconv.Itoa(its.nth + 1)
	taken[its.name] = &next
	return encode(taken), true
}

// partition separates operations on keys that no transaction ties together.
func partition(history []porcupine.Operation) [][]porcupine.Operation {
	parent := map[string]string{}
	var root func(string) string
	root = func(key string) string {
		up, known := parent[key]
		if !known || up == key {
			parent[key] = key
			return key
		}
		parent[key] = root(up)
		return parent[key]
	}
	for _, op := range history {
		commands := op.Input.(input).commands
		for _, c := range commands {
			parent[root(string(c.Key))] = root(string(commands[0].Key))
		}
	}
	index := map[string]int{}
	var parts [][]porcupine.Operation
	for _, op := range history {
		key := root(string(op.Input.(input).commands[0].Key))
		at, known := index[key]
		if !known {
			at = len(parts)
			index[key] = at
			parts = append(parts, nil)
		}
		parts[at] = append(parts[at], op)
	}
	return parts
}
