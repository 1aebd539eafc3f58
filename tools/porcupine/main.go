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
	"time"

	"github.com/anishathalye/porcupine"
)

func main() {
	timeout := flag.Duration("timeout", time.Minute, "how long to try, for each file")
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

// judge returns a word and the exit code that goes with it.
func judge(operations []operation, timeout time.Duration) (string, int) {
	history := make([]porcupine.Operation, 0, len(operations))
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
			Input:    op.list(),
			Call:     op.InvokeNs,
			Output:   op.replies(),
			Return:   end,
		})
	}
	switch porcupine.CheckOperationsTimeout(model, history, timeout) {
	case porcupine.Ok:
		return "linearizable", 0
	case porcupine.Illegal:
		return "violation", 1
	default:
		return "unknown", 3
	}
}
