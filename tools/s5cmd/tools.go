//go:build tools

// Package tools pins s5cmd, with which the copy bench compares; go.sum holds its hashes.
package tools

import _ "github.com/peak/s5cmd/v2"
