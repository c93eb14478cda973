# SPDX-License-Identifier: GPL-2.0-only
# Completion of the dlend command for fish.

function __dlend_complete
    for line in (/usr/lib/dlend/complete (commandline -opc))
        switch $line
            case @files
                __fish_complete_path (commandline -ct)
            case @directories
                __fish_complete_directories (commandline -ct)
            case @hosts
                __fish_print_hostnames
            case '*'
                printf '%s\n' $line
        end
    end
end

complete -c dlend -f -a '(__dlend_complete)'
