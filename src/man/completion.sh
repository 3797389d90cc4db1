#!/bin/sh
# SPDX-License-Identifier: MIT
# Writes the completion of a shell: the verbs and options that `deltaprof` prints in its help, and the keys of run -o.
# usage: completion.sh DELTAPROF bash|zsh|fish
set -eu
deltaprof=$1 shell=$2

verbs=$("$deltaprof" --help | awk '/^  deltaprof [a-z]+ / { print $2 }' | tr '\n' ' ')
keys=$("$deltaprof" run --help | sed -n 's/^  \([a-z_]*\)=.*/\1=/p' | tr '\n' ' ')

about() { # VERB: what it does
    "$deltaprof" --help | awk -v verb="$1" 'found { sub(/^ +/, ""); print; exit } $1 == "deltaprof" && $2 == verb { found = 1 }' | sed "s/'//g"
}

options() { # VERB: its options, in its synopsis and in its help
    "$deltaprof" "$1" --help | grep -oE '(^|[ [])--?[a-zA-Z][a-z-]*' | tr -d ' [' | sort -u | tr '\n' ' '
}

bash_script() {
    printf '# Completion of deltaprof for bash.\n_deltaprof()\n{\n    local word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} options=\n'
    printf '    if [[ $COMP_CWORD == 1 ]]; then\n        COMPREPLY=($(compgen -W "%s" -- "$word") $(compgen -f -- "$word"))\n        return\n    fi\n' "$verbs"
    printf '    if [[ $verb == run && ${COMP_WORDS[COMP_CWORD - 1]} == -o ]]; then\n        compopt -o nospace\n'
    printf '        COMPREPLY=($(compgen -W "%s" -- "$word"))\n        return\n    fi\n    case $verb in\n' "$keys"
    for verb in $verbs; do printf '    %s) options="%s--help" ;;\n' "$verb" "$(options "$verb")"; done
    printf '    help) COMPREPLY=($(compgen -W "%s" -- "$word")) && return ;;\n    esac\n' "$verbs"
    printf '    if [[ $word == -* ]]; then\n        COMPREPLY=($(compgen -W "$options" -- "$word"))\n'
    printf '    elif [[ $verb == run ]]; then\n        COMPREPLY=($(compgen -c -f -- "$word"))\n    else\n        COMPREPLY=($(compgen -f -- "$word"))\n    fi\n}\n'
    printf 'complete -o filenames -F _deltaprof deltaprof\n'
}

zsh_script() {
    printf '#compdef deltaprof\n# Completion of deltaprof for zsh.\nlocal -a verbs\nverbs=(\n'
    for verb in $verbs; do printf "    '%s:%s'\n" "$verb" "$(about "$verb" | sed 's/:/\\:/g')"; done
    printf ')\nif ((CURRENT == 2)); then\n    _describe verb verbs\n    _files\n    return\nfi\n'
    printf 'if [[ $words[2] == run && $words[CURRENT-1] == -o ]]; then\n    compadd -S "" -- %s\n    return\nfi\n' "$keys"
    printf 'if [[ $PREFIX == -* ]]; then\n    case $words[2] in\n'
    for verb in $verbs; do printf '    %s) compadd -- %s--help ;;\n' "$verb" "$(options "$verb")"; done
    printf '    esac\n    return\nfi\n[[ $words[2] == run ]] && _command_names -e\n_files\n'
}

fish_script() {
    printf '# Completion of deltaprof for fish.\n'
    for verb in $verbs; do
        printf "complete -c deltaprof -n __fish_use_subcommand -a %s -d '%s'\n" "$verb" "$(about "$verb")"
        for option in $(options "$verb"); do
            case $option in
            --*) flag="-l ${option#--}" ;;
            *) flag="-s ${option#-}" ;;
            esac
            printf "complete -c deltaprof -n '__fish_seen_subcommand_from %s' %s\n" "$verb" "$flag"
        done
    done
    for key in $keys; do printf "complete -c deltaprof -n '__fish_seen_subcommand_from run; and __fish_contains_opt -s o' -a %s\n" "$key"; done
}

"${shell}_script"
