# SPDX-License-Identifier: GPL-2.0
# KTAP of a kernel to flat TAP: one line for each case, or for each parameter of one.

BEGIN { print "TAP version 13" }

{ match($0, /^ */); depth = int(RLENGTH / 4); line = substr($0, RLENGTH + 1) }

line ~ /^# Subtest: / { name[depth] = substr(line, 12); next }
line ~ /^K?TAP version/ || line ~ /^1\.\.[0-9]+$/ { next }

line ~ /^(not )?ok [0-9]+/ {
	bad = line ~ /^not /
	what = line
	sub(/^(not )?ok [0-9]+( -)? ?/, "", what)
	inside = ""
	for (i = 1; i <= depth; i++)
		inside = inside name[i] ": "
	# One with children says nothing new, unless it failed and none of them did.
	if (!children[depth + 1] || (bad && !failed[depth + 1]))
		printf "%sok %d - %s%s\n", bad ? "not " : "", ++count, inside, what
	children[depth + 1] = failed[depth + 1] = 0
	children[depth]++
	failed[depth] += bad
	next
}

line != "" { print (line ~ /^#/ ? "" : "# ") line }

END { print "1.." count + 0 }
