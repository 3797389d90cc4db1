/* SPDX-License-Identifier: MIT */
/*
 * groups.js - the processes that are chosen: all, one, or a group of one directory or one program. A choice is a number: of a process from 0
 * on, ALL, or of a group from -2 down, so that it fits into a link.
 */
const ALL = -1;

class Groups {
    constructor(processes) {
        this.processes = processes; /* an Interner */
        this.n = -1;
        this.found = [];
    }

    /* [{name, choice, members: numbers of processes}]: directories if there are several, and programs with several processes. */
    get all() {
        const {items} = this.processes;
        if (this.n === items.length)
            return this.found;
        const byName = new Map(), hosts = new Set(items.map(p => p.host)), programs = new Set(items.map(p => `${p.program}\0${p.host}`));
        const add = (name, i) => byName.set(name, [...(byName.get(name) || []), i]);
        items.forEach((p, i) => {
            if (hosts.size > 1)
                add(p.host || '(no directory)', i);
        });
        items.forEach((p, i) => {
            if (programs.size > 1 && programs.size > hosts.size)
                add(`${p.program}${hosts.size > 1 ? ` in ${p.host}` : ''}`, i);
        });
        this.n = items.length;
        this.found = [...byName].filter(([name, members]) => hosts.has(name) || members.length > 1)
            .map(([name, members], i) => ({name: `${name}: ${members.length} ${members.length === 1 ? 'process' : 'processes'}`, key: name, choice: -2 - i, members}));
        return this.found;
    }

    /* By process, 1 if it is chosen; null: all are. */
    members(choice) {
        if (choice === ALL || !this.isHere(choice))
            return null;
        const flags = new Uint8Array(this.processes.items.length);
        for (const i of choice >= 0 ? [choice] : this.all[-2 - choice].members)
            flags[i] = 1;
        return flags;
    }

    isHere(choice) {
        return choice === ALL || choice in this.processes.items || -2 - choice in this.all;
    }

    name(choice) {
        return choice === ALL || !this.isHere(choice) ? 'all' : choice >= 0 ? processName(this.processes.items[choice]) : this.all[-2 - choice].name;
    }

    /* The choice of all processes of a directory. */
    ofDirectory(host) {
        return this.all.find(group => group.key === host)?.choice ?? ALL;
    }
}

function processName(process) {
    return process.pid ? `${process.program} ${process.pid}` : process.program;
}
