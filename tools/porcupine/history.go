package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// text is a key or a value: a JSON string, or {"hex": "00ff"}.
type text string

func (t *text) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '{' {
		var wrapped struct {
			Hex string `json:"hex"`
		}
		if err := strict(raw, &wrapped); err != nil {
			return err
		}
		bytes, err := hex.DecodeString(wrapped.Hex)
		*t = text(bytes)
		return err
	}
	var plain string
	err := json.Unmarshal(raw, &plain)
	*t = text(plain)
	return err
}

// nullable tells null from an absent field.
type nullable struct {
	present bool
	value   *text
}

func (n *nullable) UnmarshalJSON(raw []byte) error {
	n.present = true
	return json.Unmarshal(raw, &n.value)
}

// command is one command on one key, in the fields of the file format.
type command struct {
	Op     string   `json:"op"`
	Key    text     `json:"key"`
	Expect nullable `json:"expect"`
	Value  text     `json:"value"`
	By     int64    `json:"by"`
}

// reply is one answer; exactly one of its parts is set.
type reply struct {
	word   string
	value  nullable
	done   *bool
	number *int64
	all    []reply
}

func (r *reply) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		return json.Unmarshal(raw, &r.word)
	}
	var fields struct {
		Value  nullable `json:"value"`
		Done   *bool    `json:"done"`
		Number *int64   `json:"number"`
		All    []reply  `json:"all"`
	}
	if err := strict(raw, &fields); err != nil {
		return err
	}
	r.value, r.done, r.number, r.all = fields.Value, fields.Done, fields.Number, fields.All
	return nil
}

// operation is one line.
type operation struct {
	Client     int       `json:"client"`
	InvokeNs   int64     `json:"invoke_ns"`
	CompleteNs *int64    `json:"complete_ns"`
	Commands   []command `json:"commands"`
	Result     *reply    `json:"result"`
	command
}

// commands of the operation, also if it is a single one.
func (o *operation) list() []command {
	if o.Op == "txn" {
		return o.Commands
	}
	return []command{o.command}
}

// replies of the operation, or nil if its outcome is unknown.
func (o *operation) replies() []reply {
	switch {
	case o.Result == nil:
		return nil
	case o.Result.all != nil:
		return o.Result.all
	default:
		return []reply{*o.Result}
	}
}

// onlyReads says whether the operation can have changed nothing.
func (o *operation) onlyReads() bool {
	for _, command := range o.list() {
		if command.Op != "get" {
			return false
		}
	}
	return true
}

// said is the same for two operations exactly if they ask for the same.
func (o *operation) said() string {
	var out strings.Builder
	for _, c := range o.list() {
		expect := "absent"
		if c.Expect.value != nil {
			expect = strconv.Quote(string(*c.Expect.value))
		}
		fmt.Fprintf(&out, "%s %q %q %d %s\n", c.Op, c.Key, c.Value, c.By, expect)
	}
	return out.String()
}

// strict refuses fields that the format does not name.
func strict(raw []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// read returns the operations of a file that matter: failed ones took no effect.
func read(path string) ([]operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	var operations []operation
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := parse(line, &operations); err != nil {
				return nil, fmt.Errorf("%s: line %d: %w", path, number, err)
			}
		}
		if errors.Is(err, io.EOF) {
			return operations, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func parse(line []byte, operations *[]operation) error {
	if bytes.HasPrefix(line, []byte(`{"history"`)) {
		var header struct {
			History string `json:"history"`
			Version int    `json:"version"`
		}
		if err := strict(line, &header); err != nil {
			return err
		}
		if header.History != "gregale" || header.Version != 1 {
			return fmt.Errorf("not a gregale history of version 1")
		}
		return nil
	}
	var op operation
	if err := strict(line, &op); err != nil {
		return err
	}
	if (op.CompleteNs == nil) != (op.Result == nil) {
		return errors.New("complete_ns and result come together, or not at all")
	}
	if op.Result != nil && op.Result.word == "failed" {
		return nil
	}
	if op.Result == nil && op.onlyReads() {
		// Nobody knows what it read, and it changed nothing.
		return nil
	}
	if op.Result != nil && len(op.replies()) != len(op.list()) {
		return errors.New("one reply a command")
	}
	*operations = append(*operations, op)
	return nil
}
