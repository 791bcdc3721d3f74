import { isGroup, type Condition, type Conditions } from './conditions.ts';
import { FIELDS, operatorName, shapeOf } from './fields.ts';

const BY_NAME = new Map(FIELDS.map((field) => [field.name, field]));

/** A condition as a short sentence: "Status is online". */
export function describe(part: Condition | Conditions): string {
  if (isGroup(part)) {
    const members = part.conditions.slice(0, 3).map(describe);
    const more = part.conditions.length - members.length;
    return `(${[...members, ...(more > 0 ? [`${more} more`] : [])].join(part.operator === 'AND' ? ' and ' : ' or ')})`;
  }
  return describeCondition(part);
}

export function describeCondition({ field, operator, value }: Condition): string {
  const known = BY_NAME.get(field);
  const shown =
    shapeOf(operator) === 'none' || value === undefined
      ? ''
      : ` ${typeof value === 'string' ? value : JSON.stringify(value)}`;
  return `${known?.label ?? field} ${operatorName(operator, known?.kind ?? 'string')}${shown.slice(0, 120)}`;
}
