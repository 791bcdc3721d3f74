/**
 * Runs the scripts that our servers give to Redis, as their text stands, so that the simulation has no second version of
 * them. Of Lua it knows what such scripts use: locals, assignments, `if`, `while`, `for`, `return`, tables, operators, and
 * a few functions. What it does not know fails loudly.
 */

export class Table {
  readonly list: LuaValue[];
  readonly #fields = new Map<LuaValue, LuaValue>();

  constructor(list: LuaValue[] = []) {
    this.list = list;
  }

  get(key: LuaValue): LuaValue {
    if (typeof key === 'number' && key >= 1 && key <= this.list.length) return this.list[key - 1] ?? null;
    return this.#fields.get(key) ?? null;
  }

  set(key: LuaValue, value: LuaValue): void {
    if (typeof key === 'number' && key >= 1 && key <= this.list.length + 1) this.list[key - 1] = value;
    else this.#fields.set(key, value);
  }

  entries(): [LuaValue, LuaValue][] {
    return [...this.list.map((value, at): [LuaValue, LuaValue] => [at + 1, value]), ...this.#fields];
  }
}

type LuaFunction = (args: LuaValue[]) => LuaValue | Several;
export type LuaValue = string | number | boolean | null | Table | LuaFunction;

/** What a function returns that returns several values. */
class Several {
  readonly values: readonly LuaValue[];
  constructor(values: readonly LuaValue[]) {
    this.values = values;
  }
}

export type Reply = string | number | null | Reply[];
/** One command of Redis. */
export type RedisCall = (args: string[]) => Reply;

type Frame = LuaValue[];
type Expression = (frame: Frame) => LuaValue | Several;
/** Returns what the script returns, `BREAK`, or `undefined` to go on. */
type Statement = (frame: Frame) => { value: LuaValue } | typeof BREAK | undefined;
const BREAK = Symbol('break');

const compiled = new Map<string, (keys: string[], args: string[], call: RedisCall) => Reply>();

/** The script as a function. Each text is read once. */
export function script(text: string): (keys: string[], args: string[], call: RedisCall) => Reply {
  let run = compiled.get(text);
  if (run === undefined) {
    run = new Parser(text).script();
    compiled.set(text, run);
  }
  return run;
}

const isTrue = (value: LuaValue) => value !== false && value !== null;

const first = (value: LuaValue | Several): LuaValue =>
  value instanceof Several ? (value.values[0] ?? null) : value;

function asNumber(value: LuaValue): number {
  if (typeof value === 'number') return value;
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : Number.NaN;
  if (Number.isNaN(number)) throw new Error(`attempt to perform arithmetic on ${describe(value)}`);
  return number;
}

function asText(value: LuaValue): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return String(value);
  throw new Error(`attempt to use ${describe(value)} as text`);
}

const describe = (value: LuaValue) =>
  value === null ? 'a nil value' : value instanceof Table ? 'a table' : `a ${typeof value} value`;

function asTable(value: LuaValue): Table {
  if (value instanceof Table) return value;
  throw new Error(`attempt to index ${describe(value)}`);
}

function isLess(one: LuaValue, other: LuaValue): boolean {
  if (typeof one === 'number' && typeof other === 'number') return one < other;
  if (typeof one === 'string' && typeof other === 'string') return one < other;
  throw new Error(`attempt to compare ${describe(one)} with ${describe(other)}`);
}

/** A pattern of Lua as a regular expression, for the few classes that scripts use. */
const pattern = (text: string) =>
  new RegExp(
    text.replaceAll('\\', '\\\\').replaceAll(/%([dswa.%-])/g, (_whole, kind: string) => CLASSES[kind] ?? ''),
  );
const CLASSES: Readonly<Record<string, string>> = {
  d: String.raw`\d`,
  s: String.raw`\s`,
  w: '[A-Za-z0-9]',
  a: '[A-Za-z]',
  '.': String.raw`\.`,
  '%': '%',
  '-': '-',
};

const LIBRARY: Readonly<Record<string, LuaFunction>> = {
  tonumber([value = null]) {
    if (typeof value === 'number') return value;
    const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : Number.NaN;
    return Number.isNaN(number) ? null : number;
  },
  tostring: ([value = null]) =>
    value === null ? 'nil' : typeof value === 'boolean' ? `${value}` : asText(value),
  unpack: ([value = null]) => new Several(asTable(value).list),
  ipairs: ([value = null]) => asTable(value),
  pairs: ([value = null]) => asTable(value),
  'math.max': (args) => Math.max(...args.map(asNumber)),
  'math.min': (args) => Math.min(...args.map(asNumber)),
  'math.floor': ([value = null]) => Math.floor(asNumber(value)),
  'string.len': ([value = null]) => asText(value).length,
  'string.sub'([value = null, start = 1, end = -1]) {
    const text = asText(value);
    const [from, to] = [asNumber(start), asNumber(end)].map((at) => (at < 0 ? text.length + at + 1 : at));
    return text.slice(Math.max(1, from ?? 1) - 1, Math.max(0, to ?? 0));
  },
  'string.find'([value = null, what = null]) {
    const found = asText(value).indexOf(asText(what));
    return found === -1 ? null : found + 1;
  },
  'string.match'([value = null, what = null]) {
    const found = pattern(asText(what)).exec(asText(value));
    if (found === null) return null;
    return found.length === 1 ? found[0] : new Several(found.slice(1));
  },
  'string.format'([format = null, value = null]) {
    const text = asText(format);
    if (text === '%.0f' || text === '%d') return String(Math.round(asNumber(value)));
    if (text === '%s') return asText(value);
    throw new Error(`string.format ${text} is not known here`);
  },
  'table.insert'([table = null, value = null]) {
    asTable(table).list.push(value);
    return null;
  },
  'table.concat'([table = null, between = '']) {
    return asTable(table).list.map(asText).join(asText(between));
  },
};

const TOKEN =
  /\s+|--[^\n]*|(?<name>[A-Za-z_]\w*)|(?<number>\d+(?:\.\d+)?)|(?<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?<sign>\.\.|==|~=|<=|>=|[-+*/%#<>=(){}[\],;.:])/gy;

interface Token {
  kind: 'name' | 'number' | 'text' | 'sign' | 'end';
  text: string;
}

function tokens(text: string): Token[] {
  const found: Token[] = [];
  let at = 0;
  for (const match of text.matchAll(TOKEN)) {
    at = match.index + match[0].length;
    const { name, number, text: quoted, sign } = match.groups ?? {};
    if (name !== undefined) found.push({ kind: 'name', text: name });
    else if (number !== undefined) found.push({ kind: 'number', text: number });
    else if (quoted !== undefined) {
      found.push({ kind: 'text', text: quoted.slice(1, -1).replaceAll(/\\(.)/g, '$1') });
    } else if (sign !== undefined) found.push({ kind: 'sign', text: sign });
  }
  if (at !== text.length) throw new Error(`Lua that is not known here: ${text.slice(at, at + 40)}`);
  return found;
}

/** Of binary operators, how strongly they bind. */
const BINDS: Readonly<Record<string, number>> = {
  or: 1,
  and: 2,
  '<': 3,
  '>': 3,
  '<=': 3,
  '>=': 3,
  '==': 3,
  '~=': 3,
  '..': 4,
  '+': 5,
  '-': 5,
  '*': 6,
  '/': 6,
  '%': 6,
};
const UNARY_BINDS = 7;

class Parser {
  readonly #tokens: Token[];
  #at = 0;
  /** The names that are visible, each with its place in the frame. */
  #scope = new Map<string, number>();
  #slots = 0;
  #call: RedisCall = () => null;

  constructor(text: string) {
    this.#tokens = tokens(text);
  }

  script(): (keys: string[], args: string[], call: RedisCall) => Reply {
    const keysSlot = this.#declare('KEYS');
    const argsSlot = this.#declare('ARGV');
    const body = this.#block(['']);
    return (keys, args, call) => {
      const frame: Frame = [];
      frame[keysSlot] = new Table([...keys]);
      frame[argsSlot] = new Table([...args]);
      this.#call = call;
      const end = body(frame);
      return end === undefined || end === BREAK ? null : replyOf(end.value);
    };
  }

  get #next(): Token {
    return this.#tokens[this.#at] ?? { kind: 'end', text: '' };
  }

  #is(text: string): boolean {
    const { kind, text: found } = this.#next;
    return found === text && kind !== 'text';
  }

  #take(text?: string): string {
    const token = this.#next;
    if (text !== undefined && !this.#is(text)) throw new Error(`Lua: ${text} expected at ${token.text}`);
    this.#at += 1;
    return token.text;
  }

  #takeIf(text: string): boolean {
    if (!this.#is(text)) return false;
    this.#at += 1;
    return true;
  }

  #declare(name: string): number {
    this.#scope.set(name, this.#slots);
    return this.#slots++;
  }

  /** Statements up to one of these words, which is not taken. */
  #block(ends: readonly string[]): Statement {
    const outer = this.#scope;
    this.#scope = new Map(outer);
    const statements: Statement[] = [];
    while (!ends.some((end) => (end === '' ? this.#next.kind === 'end' : this.#is(end)))) {
      statements.push(this.#statement());
      this.#takeIf(';');
    }
    this.#scope = outer;
    return (frame) => {
      for (const statement of statements) {
        const end = statement(frame);
        if (end !== undefined) return end;
      }
      return undefined;
    };
  }

  #statement(): Statement {
    if (this.#takeIf('local')) return this.#local();
    if (this.#takeIf('if')) return this.#if();
    if (this.#takeIf('for')) return this.#for();
    if (this.#takeIf('while')) return this.#while();
    if (this.#takeIf('break')) return () => BREAK;
    if (this.#takeIf('return')) {
      const value = this.#is('end') || this.#next.kind === 'end' ? () => null : this.#expression();
      return (frame) => ({ value: first(value(frame)) });
    }
    const start = this.#at;
    const target = this.#suffixed();
    if (!this.#is('=')) {
      return (frame) => {
        target(frame);
        return undefined;
      };
    }
    this.#at = start;
    return this.#assignment();
  }

  #local(): Statement {
    const names = [this.#take()];
    while (this.#takeIf(',')) names.push(this.#take());
    const values: Expression[] = [];
    if (this.#takeIf('=')) values.push(...this.#list());
    const slots = names.map((name) => this.#declare(name));
    return (frame) => {
      const found = evaluated(values, frame);
      slots.forEach((slot, at) => (frame[slot] = found[at] ?? null));
      return undefined;
    };
  }

  #assignment(): Statement {
    const name = this.#take();
    const slot = this.#scope.get(name);
    if (slot === undefined) throw new Error(`Lua: ${name} is not declared`);
    const keys: Expression[] = [];
    while (!this.#is('=')) {
      if (this.#takeIf('.')) {
        const field = this.#take();
        keys.push(() => field);
      } else {
        this.#take('[');
        keys.push(this.#expression());
        this.#take(']');
      }
    }
    this.#take('=');
    const value = this.#expression();
    const last = keys.pop();
    return (frame) => {
      const assigned = first(value(frame));
      if (last === undefined) frame[slot] = assigned;
      else {
        let table = asTable(frame[slot] ?? null);
        for (const key of keys) table = asTable(table.get(first(key(frame))));
        table.set(first(last(frame)), assigned);
      }
      return undefined;
    };
  }

  #if(): Statement {
    const branches: { condition: Expression; body: Statement }[] = [];
    let otherwise: Statement | undefined;
    do {
      const condition = this.#expression();
      this.#take('then');
      branches.push({ condition, body: this.#block(['elseif', 'else', 'end']) });
    } while (this.#takeIf('elseif'));
    if (this.#takeIf('else')) otherwise = this.#block(['end']);
    this.#take('end');
    return (frame) => {
      for (const { condition, body } of branches) if (isTrue(first(condition(frame)))) return body(frame);
      return otherwise?.(frame);
    };
  }

  #while(): Statement {
    const condition = this.#expression();
    this.#take('do');
    const body = this.#block(['end']);
    this.#take('end');
    return (frame) => {
      while (isTrue(first(condition(frame)))) {
        const end = body(frame);
        if (end === BREAK) return undefined;
        if (end !== undefined) return end;
      }
      return undefined;
    };
  }

  #for(): Statement {
    const names = [this.#take()];
    while (this.#takeIf(',')) names.push(this.#take());
    const isCounting = this.#takeIf('=');
    if (!isCounting) this.#take('in');
    const range = this.#list();
    this.#take('do');
    const outer = this.#scope;
    this.#scope = new Map(outer);
    const slots = names.map((name) => this.#declare(name));
    const body = this.#block(['end']);
    this.#scope = outer;
    this.#take('end');
    return (frame) => {
      const values = evaluated(range, frame);
      const turns = isCounting ? counted(values) : asTable(values[0] ?? null).entries();
      for (const turn of turns) {
        slots.forEach((slot, at) => (frame[slot] = turn[at] ?? null));
        const end = body(frame);
        if (end === BREAK) return undefined;
        if (end !== undefined) return end;
      }
      return undefined;
    };
  }

  #list(): Expression[] {
    const list = [this.#expression()];
    while (this.#takeIf(',')) list.push(this.#expression());
    return list;
  }

  #expression(atLeast = 1): Expression {
    let left = this.#unary();
    for (;;) {
      const sign = this.#next.kind === 'text' ? '' : this.#next.text;
      const binds = BINDS[sign] ?? 0;
      if (binds < atLeast) return left;
      this.#at += 1;
      // Text is joined from the right, everything else from the left.
      left = binary(sign, left, this.#expression(sign === '..' ? binds : binds + 1));
    }
  }

  #unary(): Expression {
    if (this.#takeIf('not')) {
      const operand = this.#expression(UNARY_BINDS);
      return (frame) => !isTrue(first(operand(frame)));
    }
    if (this.#takeIf('-')) {
      const operand = this.#expression(UNARY_BINDS);
      return (frame) => -asNumber(first(operand(frame)));
    }
    if (this.#takeIf('#')) {
      const operand = this.#expression(UNARY_BINDS);
      return (frame) => {
        const value = first(operand(frame));
        return value instanceof Table ? value.list.length : asText(value).length;
      };
    }
    return this.#suffixed();
  }

  /** A value with what follows it: fields, indexes and calls. */
  #suffixed(): Expression {
    let value = this.#primary();
    for (;;) {
      if (this.#takeIf('.')) {
        const field = this.#take();
        const before = value;
        value = (frame) => asTable(first(before(frame))).get(field);
      } else if (this.#takeIf('[')) {
        const before = value;
        const key = this.#expression();
        this.#take(']');
        value = (frame) => asTable(first(before(frame))).get(first(key(frame)));
      } else return value;
    }
  }

  #primary(): Expression {
    const { kind, text } = this.#next;
    this.#at += 1;
    if (kind === 'number') {
      const number = Number(text);
      return () => number;
    }
    if (kind === 'text') return () => text;
    if (text === 'nil') return () => null;
    if (text === 'true') return () => true;
    if (text === 'false') return () => false;
    if (text === '(' && kind === 'sign') {
      const inner = this.#expression();
      this.#take(')');
      return (frame) => first(inner(frame));
    }
    if (text === '{' && kind === 'sign') return this.#table();
    if (kind !== 'name') throw new Error(`Lua: a value expected at ${text}`);
    const slot = this.#scope.get(text);
    if (slot !== undefined) return (frame) => frame[slot] ?? null;
    return this.#libraryCall(text);
  }

  #table(): Expression {
    const items: { key: Expression | undefined; value: Expression }[] = [];
    while (!this.#is('}')) {
      const { kind, text } = this.#next;
      if (kind === 'name' && this.#tokens[this.#at + 1]?.text === '=') {
        this.#at += 2;
        items.push({ key: () => text, value: this.#expression() });
      } else items.push({ key: undefined, value: this.#expression() });
      if (!this.#takeIf(',')) break;
    }
    this.#take('}');
    return (frame) => {
      const table = new Table();
      items.forEach(({ key, value }, at) => {
        const found = value(frame);
        if (key !== undefined) table.set(first(key(frame)), first(found));
        else if (found instanceof Several && at === items.length - 1) table.list.push(...found.values);
        else table.list.push(first(found));
      });
      return table;
    };
  }

  #libraryCall(start: string): Expression {
    let name = start;
    while (this.#takeIf('.')) name += `.${this.#take()}`;
    this.#take('(');
    const args = this.#is(')') ? [] : this.#list();
    this.#take(')');
    if (name === 'redis.call' || name === 'redis.pcall') {
      return (frame) => valueOf(this.#call(evaluated(args, frame).map(asText)));
    }
    const known = LIBRARY[name];
    if (known === undefined) throw new Error(`Lua: ${name} is not known here`);
    return (frame) => known(evaluated(args, frame));
  }
}

/** The values of a list, of which the last one may be several. */
function evaluated(list: readonly Expression[], frame: Frame): LuaValue[] {
  const values: LuaValue[] = [];
  list.forEach((expression, at) => {
    const value = expression(frame);
    if (value instanceof Several && at === list.length - 1) values.push(...value.values);
    else values.push(first(value));
  });
  return values;
}

function counted([start = null, end = null, step = 1]: LuaValue[]): [LuaValue][] {
  const turns: [LuaValue][] = [];
  const by = asNumber(step);
  for (let at = asNumber(start); by > 0 ? at <= asNumber(end) : at >= asNumber(end); at += by) {
    turns.push([at]);
  }
  return turns;
}

function binary(sign: string, one: Expression, other: Expression): Expression {
  const values =
    (combine: (one: LuaValue, other: LuaValue) => LuaValue): Expression =>
    (frame) =>
      combine(first(one(frame)), first(other(frame)));
  switch (sign) {
    case 'and':
      return (frame) => {
        const value = first(one(frame));
        return isTrue(value) ? first(other(frame)) : value;
      };
    case 'or':
      return (frame) => {
        const value = first(one(frame));
        return isTrue(value) ? value : first(other(frame));
      };
    case '..':
      return values((a, b) => asText(a) + asText(b));
    case '+':
      return values((a, b) => asNumber(a) + asNumber(b));
    case '-':
      return values((a, b) => asNumber(a) - asNumber(b));
    case '*':
      return values((a, b) => asNumber(a) * asNumber(b));
    case '/':
      return values((a, b) => asNumber(a) / asNumber(b));
    case '%':
      return values((a, b) => asNumber(a) % asNumber(b));
    case '==':
      return values((a, b) => a === b);
    case '~=':
      return values((a, b) => a !== b);
    case '<':
      return values(isLess);
    case '>':
      return values((a, b) => isLess(b, a));
    case '<=':
      return values((a, b) => !isLess(b, a));
    case '>=':
      return values((a, b) => !isLess(a, b));
    default:
      throw new Error(`Lua: ${sign} is not known here`);
  }
}

/** What a command has answered, as a script sees it: nothing is `false`. */
function valueOf(reply: Reply): LuaValue {
  if (reply === null) return false;
  return Array.isArray(reply) ? new Table(reply.map(valueOf)) : reply;
}

/** What a script has returned, as its caller sees it: numbers are whole, and a list ends at the first nil. */
function replyOf(value: LuaValue): Reply {
  if (value === null || value === false || typeof value === 'function') return null;
  if (value === true) return 1;
  if (typeof value === 'number') return Math.trunc(value);
  if (typeof value === 'string') return value;
  const end = value.list.indexOf(null);
  return (end === -1 ? value.list : value.list.slice(0, end)).map(replyOf);
}
