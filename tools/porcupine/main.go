// Command porcupine judges recorded histories of gregale with an independent checker.
//
// It shares no code with gregale's own judge, only the file format, so that a mistake in one of
// them shows as a disagreement.
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

func main() {
	timeout := flag.Duration("timeout", time.Minute, "how long to try, for each file; up to three times as long with parts of it")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: porcupine [-timeout 1m] HISTORY...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	exit := 0
	for _, path := range flag.Args() {
		operations, err := read(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		verdict, code := judge(operations, *timeout)
		fmt.Printf("%s %s\n", verdict, path)
		if code > exit {
			exit = code
		}
	}
	os.Exit(exit)
}

// prefixes of a history in which a violation is looked for before the whole is tried.
const prefixes = 16

// judge returns a word and the exit code that goes with it.
//
// What some unknown operation may have done at every moment since it began is what makes a search
// long. Most of them left nothing that an answer shows, so an order is first looked for in which
// those never took effect. If there is one it explains the whole history; if there is none, that
// says nothing. Then a beginning of the history is looked for that nothing explains: what begins
// wrong is wrong, and fewer operations were unknown by then. At last all of it is tried.
func judge(operations []operation, timeout time.Duration) (string, int) {
	if seen := withoutUnseen(operations); len(seen) < len(operations) {
		if check(seen, timeout/2) == porcupine.Ok {
			return "linearizable", 0
		}
		for n := 1; n < prefixes; n++ {
			begun := beginning(operations, float64(n)/prefixes)
			if check(begun, timeout/prefixes) == porcupine.Illegal {
				return "violation", 1
			}
		}
	}
	switch check(operations, timeout) {
	case porcupine.Ok:
		return "linearizable", 0
	case porcupine.Illegal:
		return "violation", 1
	default:
		return "unknown", 3
	}
}

// beginning returns what was known when this part of the time was over.
func beginning(operations []operation, part float64) []operation {
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range operations {
		if at := operations[i].InvokeNs; at < first {
			first = at
		}
		if at := operations[i].InvokeNs; at > last {
			last = at
		}
	}
	now := first + int64(float64(last-first)*part)
	var begun []operation
	for _, op := range operations {
		if op.CompleteNs != nil && *op.CompleteNs > now {
			op.CompleteNs, op.Result = nil, nil
		}
		if op.InvokeNs <= now && !(op.Result == nil && op.onlyReads()) {
			begun = append(begun, op)
		}
	}
	return begun
}

func check(operations []operation, timeout time.Duration) porcupine.CheckResult {
	history := make([]porcupine.Operation, 0, len(operations))
	turns := twins(operations)
	for i := range operations {
		op := &operations[i]
		// An unknown operation has no end: it may take effect after everything else, which
		// nobody sees, and so it need never have taken effect.
		end := int64(math.MaxInt64)
		if op.CompleteNs != nil {
			end = *op.CompleteNs
		}
		history = append(history, porcupine.Operation{
			ClientId: op.Client,
			Input:    input{op.list(), turns[i]},
			Call:     op.InvokeNs,
			Output:   op.replies(),
			Return:   end,
		})
	}
	return porcupine.CheckOperationsTimeout(model, history, timeout)
}

// twins gives unknown operations that say the same their turns, in the order in which they began.
//
// Nobody can tell which of two twins took effect when: if an order explains the history, so does
// the one in which they change places until the one that began first is first. So it is enough to
// look for an order in which they take turns, which spares trying each subset of them.
func twins(operations []operation) []turn {
	alike := map[string][]int{}
	for i := range operations {
		if operations[i].Result == nil {
			said := operations[i].said()
			alike[said] = append(alike[said], i)
		}
	}
	turns := make([]turn, len(operations))
	for _, twins := range alike {
		if len(twins) == 1 {
			continue
		}
		sort.SliceStable(twins, func(a, b int) bool {
			return operations[twins[a]].InvokeNs < operations[twins[b]].InvokeNs
		})
		for nth, i := range twins {
			turns[i] = turn{strconv.Itoa(twins[0]), nth}
		}
	}
	return turns
}

// withoutUnseen leaves unknown operations out that wrote values of which none is in any answer.
// (Such a value may still be what made a compare-and-set fail or a text longer; see judge.)
func withoutUnseen(operations []operation) []operation {
	answers := map[text][]string{}
	for i := range operations {
		commands := operations[i].list()
		for n, reply := range operations[i].replies() {
			if v := reply.value.value; v != nil {
				answers[commands[n].Key] = append(answers[commands[n].Key], string(*v))
			}
		}
	}
	kept := make([]operation, 0, len(operations))
	for i := range operations {
		op := &operations[i]
		if op.Result != nil || shows(op, answers) {
			kept = append(kept, *op)
		}
	}
	return kept
}

// shows says whether an answer holds something that op wrote, or may come of it without a value.
func shows(op *operation, answers map[text][]string) bool {
	for _, command := range op.list() {
		switch command.Op {
		case "get":
		case "incr", "delete":
			return true
		default:
			for _, answer := range answers[command.Key] {
				if strings.Contains(answer, string(command.Value)) {
					return true
				}
			}
		}
	}
	return false
}
