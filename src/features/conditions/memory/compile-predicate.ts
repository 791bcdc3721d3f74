import type { Field, Value } from '../fields/field.ts';
import { fold } from './fold.ts';
import { boundAt } from '../fields/instants.ts';
import type { MatchableDevice } from '../fields/matchable-device.ts';
import type { Leaf, Rule, Test } from '../language/rule.ts';

/** Compiles a rule into a flat list of tests, each with the next step for either result. */

export type Predicate = (device: MatchableDevice, now: number) => boolean;

interface Step {
  ask: Predicate;
  whenTrue: number;
  whenFalse: number;
}

const MATCHED = -1;
const MISSED = -2;

export function compilePredicate(rule: Rule): Predicate {
  const steps = stepsOf(rule);
  const start = steps.length - 1;
  return (device, now) => {
    let at = start;
    for (let step = steps[at]; step !== undefined; step = steps[at]) {
      at = step.ask(device, now) ? step.whenTrue : step.whenFalse;
    }
    return at === MATCHED;
  };
}

/** Built from the last test to the first, so that the next step of a test is already known. */
function stepsOf(rule: Rule): Step[] {
  const steps: Step[] = [];
  const open = [{ rule, left: -1, whenTrue: MATCHED, whenFalse: MISSED }];
  for (let frame = open.at(-1); frame !== undefined; frame = open.at(-1)) {
    const { rule, whenTrue, whenFalse } = frame;
    if (!('children' in rule)) {
      steps.push({ ask: compileTest(rule), whenTrue, whenFalse });
      open.pop();
      continue;
    }
    const isLast = frame.left === -1;
    if (isLast) frame.left = rule.children.length;
    frame.left -= 1;
    const child = rule.children[frame.left];
    if (child === undefined) {
      open.pop();
      continue;
    }
    const behind = steps.length - 1;
    open.push({
      rule: child,
      left: -1,
      whenTrue: isLast || rule.operator === 'or' ? whenTrue : behind,
      whenFalse: isLast || rule.operator === 'and' ? whenFalse : behind,
    });
  }
  return steps;
}

/** Compiles a single condition. */
export function compileTest({ field, test }: Leaf): Predicate {
  const read = (device: MatchableDevice) => field.value(device);
  const asked = testOf(field, test);
  return (device, now) => asked(read(device), now);
}

type Asked = (value: Value, now: number) => boolean;

function testOf(field: Field, test: Test): Asked {
  switch (test.is) {
    case 'null':
      return (value) => (value === null) !== test.negated;
    case 'among': {
      const wanted = new Set(test.values);
      return (value) => some(value, (text) => wanted.has(text)) !== test.negated;
    }
    case 'like': {
      const wanted = fold(test.text);
      const holds = { anywhere: includes, start: startsWith, end: endsWith }[test.part];
      const negated = test.negated || field.kind === 'noSoftware';
      return (value) => some(value, (text) => holds(fold(text), wanted)) !== negated;
    }
    case 'matching':
      return (value) => some(value, (text) => test.pattern.test(text));
    case 'within':
      return within(test);
    case 'overlapping': {
      const wanted = new Set(test.values);
      return (value) => some(value, (text) => wanted.has(text));
    }
    case 'including':
      return (value) => Array.isArray(value) && test.values.every((text) => value.includes(text));
    case 'empty':
      return (value) => some(value, () => true) === test.negated;
    default:
      return test satisfies never;
  }
}

const includes = (text: string, part: string) => text.includes(part);
const startsWith = (text: string, part: string) => text.startsWith(part);
const endsWith = (text: string, part: string) => text.endsWith(part);

function some(value: Value, test: (text: string) => boolean): boolean {
  if (typeof value === 'string') return test(value);
  return Array.isArray(value) && value.some(test);
}

function within({ low, high, negated }: Test & { is: 'within' }): Asked {
  const isAbove = (value: number, now: number) => {
    if (low === undefined) return true;
    const end = boundAt(low, now);
    return 'at' in low && low.open === true ? value > end : value >= end;
  };
  const isBelow = (value: number, now: number) => {
    if (high === undefined) return true;
    const end = boundAt(high, now);
    return 'at' in high && high.open === true ? value < end : value <= end;
  };
  return (value, now) =>
    (typeof value === 'number' && isAbove(value, now) && isBelow(value, now)) !== negated;
}
