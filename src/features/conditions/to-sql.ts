import { PRESENCE_JOIN } from './fields.ts';
import {
  type Dependency,
  type Field,
  isMany,
  type ManyField,
  type SingleField,
  type Sql,
  type SqlValue,
} from './field.ts';
import { type Bound, boundAt, instantText } from './instants.ts';
import type { Leaf, Rule, Test } from './rule.ts';

/**
 * A rule as SQL. It contains no NOT, so a test of a missing value may be null instead of false.
 */
export interface SqlCondition extends Sql {
  /** Named queries (common table expressions) that it uses, in order. */
  named: readonly (Sql & { name: string })[];
  /** Whether it uses `p`, the presence of the device. */
  readsPresence: boolean;
}

/** Postgres plans deeply nested expressions very slowly, so subtrees of this depth become named queries. */
const LEVELS_MAX = 40;

/** With more subqueries than this, none of them may become a join. */
const JOINS_MAX = 6;

/** Anything that can be expressed as SQL on devices. */
export interface SqlSource {
  toSql(options: { now: number; tenant: string; prefix: string }): SqlCondition;
}

interface Part extends Sql {
  levels: number;
  readsPresence: boolean;
}

/**
 * @param now  in milliseconds
 * @param tenant  SQL that restricts named queries to the devices of the tenant
 * @param prefix  the prefix of their names
 */
export function toSql(
  rule: Rule,
  { now, tenant, prefix }: { now: number; tenant: string; prefix: string },
): SqlCondition {
  const named: (Sql & { name: string })[] = [];
  // A part becomes a named query as soon as it is deep enough, which makes it flat for its parent.
  const cut = (part: Part): Part => {
    if (part.levels < LEVELS_MAX) return part;
    const name = `${prefix}${named.length}`;
    named.push({
      name,
      text: `select d.id from devices d ${part.readsPresence ? PRESENCE_JOIN : ''} where ${tenant} and ${part.text}`,
      values: part.values,
    });
    return {
      text: `(d.id in (select id from ${name})) is true`,
      values: [],
      levels: 0,
      readsPresence: false,
    };
  };
  const isKeptApart = subqueriesIn(rule) > JOINS_MAX;
  const done: Part[] = [];
  const open: { rule: Rule; next: number }[] = [{ rule, next: 0 }];
  for (let frame = open.at(-1); frame !== undefined; frame = open.at(-1)) {
    if (!('children' in frame.rule)) {
      done.push(leafPart(frame.rule, now, isKeptApart));
      open.pop();
    } else if (frame.next < frame.rule.children.length) {
      const child = frame.rule.children[frame.next];
      frame.next += 1;
      if (child !== undefined) open.push({ rule: child, next: 0 });
    } else {
      const { operator, children } = frame.rule;
      done.push(cut(joined(operator, done.splice(done.length - children.length))));
      open.pop();
    }
  }
  const [whole] = done;
  if (whole === undefined) throw new Error('a rule has no part');
  return { ...whole, named };
}

function joined(operator: 'and' | 'or', parts: readonly Part[]): Part {
  const values: SqlValue[] = [];
  let levels = 0;
  for (const part of parts) {
    for (const value of part.values) values.push(value);
    levels = Math.max(levels, part.levels);
  }
  return {
    text: `(${parts.map(({ text }) => text).join(` ${operator} `)})`,
    values,
    levels: levels + 1,
    readsPresence: parts.some(({ readsPresence }) => readsPresence),
  };
}

function subqueriesIn(rule: Rule): number {
  let count = 0;
  const open = [rule];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if ('children' in next) for (const child of next.children) open.push(child);
    else if (isMany(next.field)) count += 1;
  }
  return count;
}

/**
 * @param isKeptApart  keep Postgres from turning the subquery into a join; joins are fast for a few subqueries and
 *   extremely slow for hundreds
 */
function leafPart({ field, test }: Leaf, now: number, isKeptApart: boolean): Part {
  const asked = isMany(field) ? askMany(field, test) : askOne(field, test, now);
  const { text, values } = isMany(field) && isKeptApart ? isTrue(asked) : asked;
  const readsPresence = IN_PRESENCE.includes(field.reads);
  return { text, values, levels: 0, readsPresence };
}

/** The parts of a device that are stored in its presence. */
const IN_PRESENCE: readonly Dependency[] = ['status', 'lastSeenAt', 'metrics'];

const UNFIT = (test: Test, field: Field) => new Error(`${test.is} is not asked of ${field.kind}`);

function askMany(field: ManyField, test: Test): Sql {
  const { sql } = field;
  switch (test.is) {
    case 'null':
      return test.negated ? isNotTrue(sql.isNull) : sql.isNull;
    case 'among':
    case 'overlapping':
      return sql.overlap(test.values);
    case 'including':
      return sql.include(test.values);
    case 'empty': {
      const any = sql.some(() => ({ text: 'true', values: [] }));
      return test.negated ? any : isNotTrue(any);
    }
    case 'like': {
      const any = sql.some((element) => like(element, test));
      return test.negated || field.kind === 'noSoftware' ? isNotTrue(any) : any;
    }
    default:
      throw UNFIT(test, field);
  }
}

function askOne({ sql: value, ...field }: SingleField, test: Test, now: number): Sql {
  const of = (operator: string, ...values: SqlValue[]): Sql => ({
    text: `(${value.text}) ${operator}`,
    values: [...value.values, ...values],
  });
  const unlessNegated = (negated: boolean, asked: Sql) => (negated ? isNotTrue(asked) : asked);
  switch (test.is) {
    case 'null':
      return of(test.negated ? 'is not null' : 'is null');
    case 'among': {
      const type = field.kind === 'uuid' ? 'uuid' : 'text';
      const [only, ...others] = test.values;
      return unlessNegated(
        test.negated,
        only !== undefined && others.length === 0
          ? of(`= ?::${type}`, only)
          : of(`= any(?::${type}[])`, test.values),
      );
    }
    case 'like': {
      const asked = like(value.text, test);
      return unlessNegated(test.negated, { ...asked, values: [...value.values, ...asked.values] });
    }
    case 'matching':
      return of('~ ?', test.pattern.postgres);
    case 'within': {
      const type = field.kind === 'number' ? 'float8' : 'timestamptz';
      const shown = (bound: Bound) =>
        field.kind === 'number' ? boundAt(bound, now) : instantText(boundAt(bound, now));
      const { low, high } = test;
      const asked =
        low !== undefined && high !== undefined
          ? of(`between ?::${type} and ?::${type}`, shown(low), shown(high))
          : low !== undefined
            ? of(`${isOpen(low) ? '>' : '>='} ?::${type}`, shown(low))
            : high !== undefined
              ? of(`${isOpen(high) ? '<' : '<='} ?::${type}`, shown(high))
              : of('is not null');
      return unlessNegated(test.negated, asked);
    }
    default:
      throw UNFIT(test, { sql: value, ...field });
  }
}

const isOpen = (bound: Bound) => 'at' in bound && bound.open === true;

const isTrue = ({ text, values }: Sql): Sql => ({ text: `(${text}) is true`, values });

/** True for null as well. */
const isNotTrue = ({ text, values }: Sql): Sql => ({ text: `(${text}) is not true`, values });

function like(expression: string, test: Test & { is: 'like' }): Sql {
  const escaped = test.text.replaceAll(/[\\%_]/g, String.raw`\$&`);
  const pattern = `${test.part === 'start' ? '' : '%'}${escaped}${test.part === 'end' ? '' : '%'}`;
  return { text: `(${expression}) ilike ?`, values: [pattern] };
}
