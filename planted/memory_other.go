//go:build !unix

package main

func limitMemory() error { return nil }
