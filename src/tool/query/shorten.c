/* SPDX-License-Identifier: MIT */
/*
 * tool/query/shorten.c - shortens names of C++ and Rust functions: each step removes a part and leaves a valid name.
 *
 * The signs in "operator<", "operator()" and the like are not brackets; "(anonymous namespace)" and the parameters of a
 * lambda, as in {lambda(int)#1}, are parts of names.
 */
#include "tool/query/naming.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Characters of "operator<<", "operator()" and so on at `at` that look like brackets and are none; 0: no operator. */
static size_t operator_at(const char *name, const char *at)
{
    static const char *const operators[] = {"<<=", "<=>", "<<",  "<=", "<",  ">>=", ">>",
                                            ">=",  ">",   "->*", "->", "()", "[]"};
    if (at - name < 8 || strncmp(at - 8, "operator", 8))
        return 0;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (!strncmp(at, operators[i], strlen(operators[i])))
            return strlen(operators[i]);
    return 0;
}

static void cut(char *from, const char *to)
{
    memmove(from, to, strlen(to) + 1);
}

static void cut_all(char *name, const char *what)
{
    for (char *at = name; (at = strstr(at, what));)
        cut(at, at + strlen(what));
}

static void replace_all(char *name, const char *what, const char *shorter)
{
    size_t n = strlen(shorter);
    for (char *at = name; (at = strstr(at, what)); at += n) {
        memcpy(at, shorter, n);
        cut(at + n, at + strlen(what));
    }
}

/* Writes the <lambda(int)> of DWARF as {lambda}, also inside of template arguments, of which it is no argument. */
static void rename_lambdas(char *name)
{
    for (char *at = name; (at = strstr(at, "::<lambda("));) {
        char *end = strstr(at, ")>");
        if (!end)
            return;
        memcpy(at, "::{lambda}", 10);
        cut(at + 10, end + 2);
    }
}

/* Takes out <...> inside of <...>. */
static void cut_nested(char *name)
{
    char *to = name;
    int depth = 0;
    for (const char *at = name; *at;) {
        size_t n = operator_at(name, at);
        if (!n && *at == '>' && at > name && at[-1] == '-')
            n = 1;
        bool is_open = !n && *at == '<', is_closed = !n && *at == '>' && depth > 0;
        depth += is_open;
        bool is_kept = depth < 2;
        for (size_t i = 0; i < (n ? n : 1); i++, at++)
            if (is_kept && !(*at == ' ' && at[1] == '>'))
                *to++ = *at;
        depth -= is_closed;
    }
    *to = '\0';
}

/* Where the bracket that closes at `end` (its last character) was opened; NULL: nowhere. */
static char *opening(char *name, char *end)
{
    int depth = 0;
    for (char *at = end; at >= name; at--) {
        depth += *at == ')';
        depth -= *at == '(';
        if (!depth)
            return at;
    }
    return NULL;
}

static bool ends_in(const char *name, size_t n, const char *ending)
{
    size_t n_ending = strlen(ending);
    return n > n_ending && !strncmp(name + n - n_ending, ending, n_ending);
}

/* Takes out a parameter list at the end, and what stands behind it. False: there is none. */
static bool cut_parameters(char *name)
{
    static const char *const behind[] = {" const", " volatile", "&", " "};
    char *clone = strstr(name, " [clone ");
    if (clone)
        *clone = '\0';
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof behind / sizeof *behind && !ends_in(name, n, ")"); i++)
        if (ends_in(name, n, behind[i])) {
            n -= strlen(behind[i]);
            i = SIZE_MAX; /* from the first one again: " const &" has three of them */
        }
    if (!ends_in(name, n, ")"))
        return false;
    char *at = opening(name, name + n - 1);
    bool is_part = !at || at == name || (at - name >= 8 && !strncmp(at - 8, "operator", 8)) ||
                   !strncmp(at, "(anonymous namespace)", 21) || at[-1] == '.' || at[-1] == ' ';
    if (!is_part)
        *at = '\0';
    return !is_part;
}

/* Removes a return type (only templates have one): the text up to a blank outside of all brackets. */
static void cut_return_type(char *name)
{
    int depth = 0;
    char *start = name;
    for (char *at = name; *at; at++) {
        size_t n = operator_at(name, at);
        if (n) {
            at += n - 1;
            continue;
        }
        depth += strchr("<({[", *at) != NULL;
        depth -= strchr(">)}]", *at) != NULL && depth > 0;
        bool is_operator = at - name >= 8 && !strncmp(at - 8, "operator", 8);
        if (*at == ' ' && !depth && !is_operator && at[1] != '<')
            start = at + 1;
        else if (is_operator && *at == ' ')
            break; /* operator new, operator bool */
    }
    if (*start)
        cut(name, start);
}

void dp_query_naming_shorten(char *name)
{
    if (!strpbrk(name, "<(") && !strstr(name, "::"))
        return;
    bool is_path = strchr(name, '/') != NULL;
    if (is_path || (*name == '<' && !strstr(name, "::")) || *name == '[')
        return; /* a file, <module> of Python, a synthetic frame */
    if (cut_parameters(name) || strstr(name, "::"))
        cut_return_type(name);
    cut_all(name, "__cxx11::");
    cut_all(name, "__1::");
    rename_lambdas(name);
    cut_nested(name);
    cut_all(name, ", std::allocator");
    cut_all(name, "<std::allocator>");
    replace_all(name, "std::basic_string<char, std::char_traits>", "std::string");
    replace_all(name, "std::basic_string::", "std::string::");
    replace_all(name, "std::basic_string,", "std::string,");
    replace_all(name, "std::basic_string>", "std::string>");
}
