import type { RuleGroupType, RuleType } from 'react-querybuilder';
import { z } from 'zod';
import { shapeOf } from './fields.ts';

/** Conditions as the API has them, and as the builder has them. */

export interface Condition {
  field: string;
  operator: string;
  value?: unknown;
}
export interface Conditions {
  operator: 'AND' | 'OR';
  conditions: (Condition | Conditions)[];
}

const isGroup = (part: Condition | Conditions): part is Conditions => 'conditions' in part;

/** The limits of the builder. The server accepts far deeper filters, which are edited as JSON. */
const DEPTH_MAX = 24;
const CONDITIONS_MAX = 300;

const Condition = z.strictObject({ field: z.string(), operator: z.string(), value: z.unknown().optional() });
const Group: z.ZodType<Conditions> = z.lazy(() =>
  z.strictObject({
    operator: z.enum(['AND', 'OR']),
    conditions: z.array(z.union([Group, Condition])).min(1),
  }),
);

/** Returns the conditions, or a message that says what is wrong with the text. */
export function parseConditions(text: string): { conditions: Conditions } | { fault: string } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { fault: error instanceof Error ? error.message : 'This is not JSON.' };
  }
  return checkConditions(value);
}

export function checkConditions(value: unknown): { conditions: Conditions } | { fault: string } {
  try {
    const parsed = Group.safeParse(value);
    if (parsed.success) return { conditions: parsed.data };
    const [issue] = parsed.error.issues;
    const place = issue === undefined || issue.path.length === 0 ? 'The whole' : issue.path.join('.');
    return {
      fault: `${place}: must be a group { "operator": "AND" or "OR", "conditions": […] } of conditions { "field", "operator", "value" } and groups.`,
    };
  } catch {
    // The recursion has a limit; the server has none.
    return { fault: 'This is nested too deeply for this page. Change it through the API.' };
  }
}

/** Whether the builder can show them. */
export function fitsBuilder(conditions: Conditions): boolean {
  let count = 0;
  const fits = (group: Conditions, depth: number): boolean =>
    depth <= DEPTH_MAX &&
    group.conditions.every((part) => (isGroup(part) ? fits(part, depth + 1) : ++count <= CONDITIONS_MAX));
  return fits(conditions, 1);
}

let lastId = 0;
const newId = () => `condition-${++lastId}`;

export function toQuery({ operator, conditions }: Conditions): RuleGroupType {
  return {
    id: newId(),
    combinator: operator,
    rules: conditions.map((part): RuleGroupType | RuleType =>
      isGroup(part)
        ? toQuery(part)
        : { id: newId(), field: part.field, operator: part.operator, value: part.value },
    ),
  };
}

/** Groups without conditions are left out, because the API refuses them. */
export function fromQuery({ combinator, rules }: RuleGroupType): Conditions {
  return {
    operator: combinator.toUpperCase() === 'OR' ? 'OR' : 'AND',
    conditions: rules.flatMap((rule): (Condition | Conditions)[] => {
      if (typeof rule === 'string') return [];
      if (!('rules' in rule)) {
        const value: unknown = rule.value;
        return [
          {
            field: rule.field,
            operator: rule.operator,
            ...(shapeOf(rule.operator) === 'none' ? {} : { value }),
          },
        ];
      }
      const group = fromQuery(rule);
      return group.conditions.length === 0 ? [] : [group];
    }),
  };
}

const isMissing = (value: unknown): boolean =>
  value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0);

function isCompleteCondition({ operator, value }: Condition): boolean {
  switch (shapeOf(operator)) {
    case 'none':
      return true;
    case 'range': {
      const range = z.object({ from: z.unknown(), to: z.unknown() }).safeParse(value);
      return range.success && !isMissing(range.data.from) && !isMissing(range.data.to);
    }
    default:
      return !isMissing(value);
  }
}

/** Whether each condition has been filled in. What is filled in wrongly is for the server to say. */
export const isComplete = ({ conditions }: Conditions): boolean =>
  conditions.length > 0 &&
  conditions.every((part) => (isGroup(part) ? isComplete(part) : isCompleteCondition(part)));

/** The conditions without one member of the outermost group; `undefined` if nothing would be left. */
export function without({ operator, conditions }: Conditions, place: number): Conditions | undefined {
  const left = conditions.filter((_, at) => at !== place);
  return left.length === 0 ? undefined : { operator, conditions: left };
}

export { isGroup };
