// The one program of the images of tests/cluster: a sandbox's pause, and containers that do as they are told.
//
//	tool pause                until SIGTERM
//	tool exit CODE            at once
//	tool memory MIB CODE      keeps so much memory, then waits; ends with CODE (0)
//	tool write FILE MIB CODE  writes so much to a file, then waits; ends with CODE (0)
//	tool stubborn             ignores SIGTERM
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tool:", err)
		os.Exit(2)
	}
	return n
}

func main() {
	arguments := append(os.Args[1:], "", "", "", "")
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	code := ""
	switch arguments[0] {
	case "exit":
		fmt.Println("the last line of the log")
		os.Exit(number(arguments[1]))
	case "memory":
		code = arguments[2]
		var kept [][]byte
		for i := 0; i < number(arguments[1]); i++ {
			block := make([]byte, 1<<20)
			for at := range block {
				block[at] = 1
			}
			kept = append(kept, block)
		}
		fmt.Println("kept", len(kept), "MiB")
	case "write":
		code = arguments[3]
		file, err := os.Create(arguments[1])
		for i := 0; err == nil && i < number(arguments[2]); i++ {
			_, err = file.Write(make([]byte, 1<<20))
		}
		fmt.Println("written:", err)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	case "pause":
	default:
		fmt.Fprintln(os.Stderr, "tool: unknown command", arguments[0])
		os.Exit(2)
	}
	// A pause is the first process of a sandbox and inherits its orphans; the kernel reaps them for who ignores SIGCHLD.
	signal.Ignore(syscall.SIGCHLD)
	<-ended
	if code != "" {
		os.Exit(number(code))
	}
}
