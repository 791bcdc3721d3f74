import { PRESENCE_JOIN } from '../fields/device-source.ts';
import { type Dependency, type Field, isMany, type ManyField, type SingleField } from '../fields/field.ts';
import { type Bound, boundAt, instantText } from '../fields/instants.ts';
import type { Leaf, Rule, Test } from '../language/rule.ts';
import type { Sql, SqlValue } from '../fields/sql-fragment.ts';

/**
 * A rule as SQL. There is no NOT in it, so a test of no value may as well be null as false.
 */
export interface SqlCondition extends Sql {
  /** Named queries that it refers to, in the order in which they do. */
  named: readonly (Sql & { name: string })[];
  /** Whether it speaks of `p`. */
  readsPresence: boolean;
}

/** Levels of a tree beyond which Postgres takes ever longer to plan: there the tree is cut. */
const LEVELS_MAX = 40;

/** Subqueries beyond which none of them is joined. */
const JOINS_MAX = 6;

interface Part extends Sql {
  levels: number;
  readsPresence: boolean;
}

/**
 * @param now  in milliseconds
 * @param tenant  the condition that keeps named queries within the tenant's devices
 * @param prefix  of the names of those queries
 */
export function toSql(
  rule: Rule,
  { now, tenant, prefix }: { now: number; tenant: string; prefix: string },
): SqlCondition {
  const named: (Sql & { name: string })[] = [];
  // Named as soon as a part is deep enough: what is around it then sees a flat one.
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
 * @param isKeptApart  whether Postgres is kept from making a join of it, which serves a few and takes for ever with
 *   hundreds
 */
function leafPart({ field, test }: Leaf, now: number, isKeptApart: boolean): Part {
  const asked = isMany(field) ? askMany(field, test) : askOne(field, test, now);
  const { text, values } = isMany(field) && isKeptApart ? isTrue(asked) : asked;
  const readsPresence = IN_PRESENCE.includes(field.reads);
  return { text, values, levels: 0, readsPresence };
}

/** What stands in the table of presence. */
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

/** Also of what is null. */
const isNotTrue = ({ text, values }: Sql): Sql => ({ text: `(${text}) is not true`, values });

function like(expression: string, test: Test & { is: 'like' }): Sql {
  const escaped = test.text.replaceAll(/[\\%_]/g, String.raw`\$&`);
  const pattern = `${test.part === 'start' ? '' : '%'}${escaped}${test.part === 'end' ? '' : '%'}`;
  return { text: `(${expression}) ilike ?`, values: [pattern] };
}
