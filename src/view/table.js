/* SPDX-License-Identifier: MIT */
/*
 * table.js - a table that is sorted by a click on a column's head. All texts are inserted as text, never as markup.
 */
const ROWS_SHOWN = 300;

function element(name, attributes = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes))
        if (key.startsWith('on'))
            node.addEventListener(key.slice(2), value);
        else if (key === 'class')
            node.className = value;
        else if (value !== undefined && value !== false)
            node.setAttribute(key, value === true ? '' : value);
    node.append(...children.filter(c => c !== null && c !== undefined));
    return node;
}

/*
 * Puts other children in a box. Of the page's own doing, as by new profiles, the focus does not move: it goes to the new element of the same id
 * or words.
 */
function refill(box, ...children) {
    const wordsOf = node => node.id || node.dataset.key || node.textContent, active = document.activeElement;
    const words = box.contains(active) ? wordsOf(active) : null, isWithin = active.localName;
    box.replaceChildren(...children);
    if (words !== null)
        [...box.querySelectorAll(isWithin)].find(node => wordsOf(node) === words)?.focus({preventScroll: true});
}

/* columns: [{name, value(row), text(row), isNumber, title, exact(row), class(row)}]. onPick(row). onSort(text): what is to be kept of the order. */
class Table {
    /** @param {(order: string) => void} onSort */
    constructor(parent, onPick, onSort = () => {}) {
        this.parent = parent;
        this.onPick = onPick;
        this.onSort = onSort;
        this.sort = null;
        this.empty = ''; /* what it says without rows */
    }

    show(columns, rows, sortBy, down = true) {
        this.columns = columns;
        this.rows = rows;
        if (!this.sort || !columns.some(c => c.name === this.sort.name))
            this.sort = {name: sortBy, down};
        this.draw();
    }

    /* The order as a text: the column, with a minus before it the smallest first. */
    get order() {
        return this.sort ? `${this.sort.down ? '' : '-'}${this.sort.name}` : '';
    }

    set order(text) {
        this.sort = text ? {name: text.replace(/^-/, ''), down: text[0] !== '-'} : null;
    }

    draw() {
        const column = this.columns.find(c => c.name === this.sort.name);
        const sign = this.sort.down ? -1 : 1;
        const sorted = this.rows.slice().sort((a, b) => {
            const x = column.value(a), y = column.value(b);
            return sign * (column.isNumber ? x - y : x < y ? -1 : x > y ? 1 : 0) || (b.cum || 0) - (a.cum || 0);
        });
        const head = element('tr', {role: 'row'}, ...this.columns.map(c => element('th', {
            class: c.isNumber ? 'number' : '', title: c.title, tabindex: '0', role: 'columnheader',
            'aria-sort': c.name === this.sort.name ? (this.sort.down ? 'descending' : 'ascending') : 'none',
            onclick: () => this.sortBy(c.name), onkeydown: e => { if (e.key === 'Enter') this.sortBy(c.name); },
        }, c.name + (c.name === this.sort.name ? (this.sort.down ? ' ▾' : ' ▴') : ''))));
        /* One row is a stop of the tab key; arrows go on from there. */
        const body = sorted.slice(0, ROWS_SHOWN).map((row, i) => element('tr', {
            role: 'row', tabindex: i ? '-1' : '0', 'data-key': row.name, onclick: () => this.onPick(row), onkeydown: event => this.key(event, row),
        }, ...this.columns.map(c => element('td', {class: c.class ? c.class(row) : c.isNumber ? 'number' : 'name', role: 'cell', 'data-name': c.name, title: c.exact ? c.exact(row) : c.isNumber && String(Math.round(c.value(row)))},
                                            c.text(row)))));
        const left = sorted.length - ROWS_SHOWN;
        refill(this.parent, element('table', {class: 'rows', role: 'table', 'aria-label': this.parent.dataset.label}, element('thead', {role: 'rowgroup'}, head), element('tbody', {role: 'rowgroup'}, ...body)),
               left > 0 ? element('p', {class: 'note'}, `${left} more rows; narrow the search to see them`) :
               !sorted.length && this.empty ? element('p', {class: 'note'}, this.empty) : '');
    }

    key(event, row) {
        const to = {ArrowDown: event.currentTarget.nextSibling, ArrowUp: event.currentTarget.previousSibling}[event.key];
        if (event.key === 'Enter')
            this.onPick(row);
        if (!to)
            return;
        event.preventDefault();
        event.currentTarget.tabIndex = -1;
        to.tabIndex = 0;
        to.focus();
    }

    sortBy(name) {
        this.sort = {name, down: this.sort.name === name ? !this.sort.down : true};
        this.draw();
        this.onSort(this.order);
    }
}
