// SPDX-License-Identifier: MIT
//
// leaking_engines.cpp - leaks of databases, interpreters, parsers and user interfaces, modelled on public
// reports.
#include "programs.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

// Fonts are kept by their size. Labels have one of 24 sizes; that of an animated text differs from frame to frame.
static std::map<float, std::vector<char>> fonts;

OWN static void rasterize_font(float size)
{
    fonts[size].resize(static_cast<size_t>(size * size * 90));
}

static void draw_text(float size)
{
    if (!fonts.count(size))
        rasterize_font(size);
}

static void font_sizes_animated(int tick)
{
    for (int frame = 0; frame < 32; frame++) {
        for (unsigned label = 0; label < 10; label++)
            draw_text(8 + static_cast<float>(next_random(24)));
        draw_text(20 + 8 * sinf(static_cast<float>(tick * 32 + frame) * 0.11f));
    }
}

// An interpreter counts references. A function that calls itself is in a slot of the scope that it holds; one in ten
// does.
struct scope;
struct closure {
    int n_refs;
    scope *outer;
    char code[900];
};
struct scope {
    int n_refs;
    closure *self;
    char slots[1200];
};

OWN static scope *new_scope()
{
    scope *fresh = static_cast<scope *>(calloc(1, sizeof(scope)));
    fresh->n_refs = 1;
    return fresh;
}

OWN static closure *new_closure(scope *outer)
{
    closure *fresh = static_cast<closure *>(calloc(1, sizeof(closure)));
    fresh->n_refs = 1;
    fresh->outer = outer;
    outer->n_refs++;
    return fresh;
}

static void put_closure(closure *c);

static void put_scope(scope *s)
{
    if (--s->n_refs)
        return;
    if (s->self)
        put_closure(s->self);
    free(s);
}

static void put_closure(closure *c)
{
    if (--c->n_refs)
        return;
    put_scope(c->outer);
    free(c);
}

static void recursive_closures(int)
{
    for (int call = 0; call < 1500; call++) {
        scope *s = new_scope();
        for (int i = 0; i < 3; i++)
            put_closure(new_closure(s));
        if (!next_random(10))
            s->self = new_closure(s);
        put_scope(s);
    }
}

// A dialog connects to a signal of the application, which keeps its handler, and thereby its picture, after it was
// closed.
static std::vector<std::function<size_t()>> theme_changed;

OWN static std::shared_ptr<std::string> render_thumbnail()
{
    return std::make_shared<std::string>(20000 + next_random(60000), 'p');
}

OWN static void open_dialog()
{
    auto thumbnail = render_thumbnail();
    std::vector<std::string> rows(40, std::string(300, 'r'));
    theme_changed.push_back([thumbnail] { return thumbnail->size(); });
}

static void dialog_slots(int)
{
    for (int i = 0; i < 26; i++)
        open_dialog();
}

// A parser frees the tokens that it reduces. A syntax error, in one statement of ten, drops what is on the stack.
OWN static char *copy_token(const char *text, size_t n)
{
    return strndup(text, n);
}

static void parser_drops_stack(int)
{
    static const std::string text(600, 't');
    std::vector<char *> stack;
    for (int statement = 0; statement < 1600; statement++) {
        unsigned n_tokens = 6 + next_random(12), at_error = next_random(10) ? n_tokens : next_random(n_tokens);
        for (unsigned i = 0; i < n_tokens && i != at_error; i++)
            stack.push_back(copy_token(text.data(), 20 + next_random(500)));
        for (char *token : stack) {
            if (at_error == n_tokens)
                free(token);
        }
        stack.clear();
    }
}

// Old versions of rows are kept as long as a reader may need them. A reader that fails in tick 9 does not end.
struct version {
    version *older;
    int written;
    char row[1500];
};
static version *rows[400];
static std::multiset<int> readers;

OWN static void write_version(version *&row, int now)
{
    row = new version{row, now, {'v'}};
}

static void purge(version *newest, int oldest_reader)
{
    while (newest && newest->written >= oldest_reader)
        newest = newest->older;
    if (!newest)
        return;
    version *at = newest->older;
    newest->older = nullptr;
    while (at) {
        version *older = at->older;
        delete at;
        at = older;
    }
}

static void ghost_reader(int tick)
{
    for (int i = 0; i < 250; i++) {
        int now = tick * 250 + i;
        auto reader = readers.insert(now);
        write_version(rows[next_random(400)], now);
        if (now != 9 * 250 + 17)
            readers.erase(reader);
    }
    for (version *row : rows)
        purge(row, readers.empty() ? tick * 250 + 250 : *readers.begin());
}

// A cache holds 20 compiled statements. An evicted one still belongs to its connection, which stays open. The program
// has 15 texts until tick 12, and 30 afterwards.
struct statement {
    unsigned text;
    char program[3400];
};
static std::list<std::unique_ptr<statement>> of_connection;
static std::list<statement *> statement_cache;

OWN static statement *compile_statement(unsigned text)
{
    of_connection.push_back(std::make_unique<statement>());
    of_connection.back()->text = text;
    return of_connection.back().get();
}

static void evicted_statements(int tick)
{
    for (int i = 0; i < 280; i++) {
        unsigned text = next_random(tick < 12 ? 15 : 30);
        auto at = statement_cache.begin();
        while (at != statement_cache.end() && (*at)->text != text)
            ++at;
        if (at != statement_cache.end()) {
            statement_cache.splice(statement_cache.begin(), statement_cache, at);
            continue;
        }
        statement_cache.push_front(compile_statement(text));
        if (statement_cache.size() > 20)
            statement_cache.pop_back();
    }
}

// The assignment of a plane takes the other's pixels and forgets its own. Three of four are cleared before.
OWN static char *allocate_plane()
{
    return xmalloc(40000);
}

struct plane {
    char *pixels = nullptr;
    plane() = default;
    explicit plane(int) : pixels(allocate_plane()) {}
    plane(plane &&other) noexcept : pixels(other.pixels)
    {
        other.pixels = nullptr;
    }
    plane &operator=(plane &&other) noexcept
    {
        pixels = other.pixels;
        other.pixels = nullptr;
        return *this;
    }
    ~plane()
    {
        free(pixels);
    }
    void clear()
    {
        free(pixels);
        pixels = nullptr;
    }
};

static void move_assignment(int)
{
    static plane planes[60];
    for (int i = 0; i < 90; i++) {
        plane &at = planes[next_random(60)];
        if (next_random(4))
            at.clear();
        at = plane(1);
    }
}

// Names of attributes are interned for good. 400 are the program's; the others come from its clients.
static std::unordered_map<std::string_view, unsigned> symbols;
static char *symbol_page;
static size_t n_left_in_page;

OWN static void new_symbol_page()
{
    n_left_in_page = 32768;
    symbol_page = xmalloc(n_left_in_page);
}

OWN static unsigned intern_name(const std::string &name)
{
    auto found = symbols.find(name);
    if (found != symbols.end())
        return found->second;
    if (n_left_in_page < name.size())
        new_symbol_page();
    memcpy(symbol_page, name.data(), name.size());
    std::string_view kept(symbol_page, name.size());
    symbol_page += name.size();
    n_left_in_page -= name.size();
    return symbols.emplace(kept, symbols.size()).first->second;
}

static void symbol_pages(int tick)
{
    for (int i = 0; i < 6000; i++) {
        bool is_new = i % 4 == 0;
        int number = is_new ? tick * 6000 + i : static_cast<int>(next_random(400));
        intern_name((is_new ? "x-" : "content-") + std::string(100 + number % 90, 'n') + std::to_string(number));
    }
}

// The constructor of a decoder throws after it has allocated its planes. Then no destructor runs.
OWN static char *allocate_planes()
{
    return xmalloc(60000);
}

struct decoder {
    char *planes;
    explicit decoder(bool is_header_valid) : planes(allocate_planes())
    {
        if (!is_header_valid)
            throw std::runtime_error("bad header");
    }
    ~decoder()
    {
        free(planes);
    }
};

static void constructor_throws(int)
{
    for (int i = 0; i < 700; i++) {
        try {
            decoder d(next_random(90) > 0);
            d.planes[1] = 'd';
        } catch (const std::runtime_error &) {
        }
    }
}

// Frames are counted references. A frame that is a key frame and late, five of 1500, is never put back.
struct frame {
    int n_refs;
    bool is_key, is_late;
    char data[1];
};
static frame *shown[60];

OWN static frame *allocate_frame()
{
    frame *fresh = static_cast<frame *>(static_cast<void *>(xmalloc(24000 + next_random(16000))));
    fresh->n_refs = 1;
    fresh->is_key = !next_random(15);
    fresh->is_late = !next_random(20);
    return fresh;
}

static void key_frames_late(int)
{
    for (int i = 0; i < 1500; i++) {
        frame *fresh = allocate_frame();
        if (fresh->is_late)
            fresh->n_refs++;
        frame *&slot = shown[i % 60];
        if (slot && slot->is_late && !slot->is_key)
            slot->n_refs--;
        if (slot && !--slot->n_refs)
            free(slot);
        slot = fresh;
    }
}

const program leaking_engines[] = {
    {"font_sizes_animated", font_sizes_animated, 0},
    {"recursive_closures", recursive_closures, 0},
    {"dialog_slots", dialog_slots, 0},
    {"parser_drops_stack", parser_drops_stack, 0},
    {"ghost_reader", ghost_reader, 0},
    {"evicted_statements", evicted_statements, 0},
    {"move_assignment", move_assignment, 0},
    {"symbol_pages", symbol_pages, 0},
    {"constructor_throws", constructor_throws, 0},
    {"key_frames_late", key_frames_late, 0},
    {nullptr, nullptr, 0},
};
