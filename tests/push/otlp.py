# SPDX-License-Identifier: MIT
"""Reads OTLP profiles by protobuf, and refuses those that break the format's rules; shares no code with deltaprof.

    rows(message)       {(frames leaf first, labels): {type: sum}}
"""
import collections

import otlp_pb2

TABLES = ('mapping', 'location', 'function', 'link', 'string', 'attribute', 'stack')


def demand(true, what):
    if not true:
        raise ValueError(what)


def load(data):
    message = otlp_pb2.Request.FromString(data)
    # protobuf keeps fields that the schema does not have. Without them there would be fewer bytes.
    copy = otlp_pb2.Request.FromString(data)
    copy.DiscardUnknownFields()
    demand(len(copy.SerializeToString()) == len(message.SerializeToString()), 'a field that the format does not have')
    check(message)
    return message


def check(message):
    d = message.dictionary
    for name in TABLES:
        table = getattr(d, name + '_table')
        demand(table and table[0] == type(table[0])(), 'entry 0 of the table of %ss' % name)
        encoded = [e if name == 'string' else e.SerializeToString(deterministic=True) for e in table]
        demand(len(set(encoded)) == len(encoded), 'equal entries in the table of %ss' % name)
    used = collections.defaultdict(set)
    for m in d.mapping_table:
        used['string'].add(m.filename_strindex)
        used['attribute'].update(m.attribute_indices)
    for l in d.location_table:
        used['mapping'].add(l.mapping_index)
        used['function'].update(line.function_index for line in l.lines)
    for f in d.function_table[1:]:
        used['string'].update((f.name_strindex, f.system_name_strindex, f.filename_strindex))
        demand(f.name_strindex or f.system_name_strindex or f.filename_strindex, 'a function without any name')
    for a in d.attribute_table[1:]:
        used['string'].update((a.key_strindex, a.unit_strindex))
        demand(a.key_strindex and a.value.WhichOneof('value'), 'an attribute without key or value')
    for s in d.stack_table:
        used['location'].update(s.location_indices)
    ids = set()
    for profile in profiles(message):
        used['string'].update((profile.sample_type.type_strindex, profile.sample_type.unit_strindex,
                               profile.period_type.type_strindex, profile.period_type.unit_strindex))
        used['attribute'].update(profile.attribute_indices)
        if profile.profile_id:
            demand(len(profile.profile_id) == 16 and any(profile.profile_id), 'profile_id')
            demand(profile.profile_id not in ids, 'profile_id twice')
            ids.add(profile.profile_id)
        identities = set()
        for s in profile.samples:
            demand(s.values, 'a sample without values')
            demand(not s.timestamps_unix_nano or len(s.timestamps_unix_nano) == len(s.values), 'values and timestamps')
            demand(s.timestamps_unix_nano or len(s.values) == 1, 'several values without timestamps')
            keys = [d.attribute_table[i].key_strindex for i in s.attribute_indices]
            demand(len(set(keys)) == len(keys), 'a key twice')
            identity = s.stack_index, frozenset(s.attribute_indices), s.link_index
            demand(identity not in identities, 'a sample twice')
            identities.add(identity)
            used['stack'].add(s.stack_index)
            used['attribute'].update(s.attribute_indices)
            used['link'].add(s.link_index)
        demand(len({bool(s.timestamps_unix_nano) for s in profile.samples}) <= 1, 'samples of different shapes')
    for name in TABLES:
        for i in used[name]:
            demand(0 <= i < len(getattr(d, name + '_table')), 'an index of the table of %ss' % name)


def pairs(message, attributes):
    """{key: text or number} of a resource or a scope, whose texts may stand in the dictionary."""
    s = message.dictionary.string_table
    out = {}
    for a in attributes:
        kind = a.value.WhichOneof('value')
        value = getattr(a.value, kind) if kind else None
        out[a.key or s[a.key_strindex]] = s[value] if kind == 'string_value_strindex' else value
    return out


def profiles(message):
    return [p for r in message.resource_profiles for s in r.scope_profiles for p in s.profiles]


def attributes(message, indices):
    d = message.dictionary
    out = {}
    for i in indices:
        a = d.attribute_table[i]
        value = getattr(a.value, a.value.WhichOneof('value'))
        out[d.string_table[a.key_strindex]] = [v.string_value for v in value.values] if hasattr(value, 'values') else value
    return out


def frames(message, stack):
    d = message.dictionary
    out = []
    for i in d.stack_table[stack].location_indices:
        l = d.location_table[i]
        out += [d.string_table[d.function_table[line.function_index].name_strindex] for line in l.lines] or ['0x%x' % l.address]
    return tuple(out)


def type_of(message, profile):
    s = message.dictionary.string_table
    return s[profile.sample_type.type_strindex], s[profile.sample_type.unit_strindex]


def rows(message):
    out = collections.defaultdict(collections.Counter)
    for profile in profiles(message):
        for s in profile.samples:
            labels = attributes(message, s.attribute_indices)
            if s.link_index:
                link = message.dictionary.link_table[s.link_index]
                labels.update(trace_id=link.trace_id.hex(), span_id=link.span_id.hex())
            for i, value in enumerate(s.values):
                if s.timestamps_unix_nano:
                    labels = {**labels, 'end_timestamp_ns': s.timestamps_unix_nano[i]}
                out[frames(message, s.stack_index), tuple(sorted(labels.items()))][type_of(message, profile)[0]] += value
    return {key: dict(values) for key, values in out.items()}
