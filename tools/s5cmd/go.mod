module seqferry.tools/s5cmd

go 1.22

require github.com/peak/s5cmd/v2 v2.3.0
