import type { AlertRule, DeviceTarget } from '../../api/routes.ts';
import type { Severity } from '../alert-words/index.ts';
import { type ConditionForms, type ConditionKind, conditionOf } from './condition-form.ts';

/** The fields of a rule apart from its devices and its condition, and how they become what the API takes. Pure. */

export interface RuleForm {
  name: string;
  severity: Severity;
  kind: ConditionKind;
  autoResolve: boolean;
  cooldownMinutes: number | undefined;
}

export const NAME_MAX = 100;
const COPY = ' (copy)';

export const ruleFormOf = (rule: AlertRule | undefined): RuleForm => ({
  name: rule?.name ?? '',
  severity: rule?.severity ?? 'high',
  kind: rule?.condition.kind ?? 'metric',
  autoResolve: rule?.autoResolve ?? true,
  cooldownMinutes: rule?.cooldownMinutes ?? 0,
});

/** The name of a copy of a rule, because the rules of an owner have different names. */
export const copyName = (name: string): string => `${name.slice(0, NAME_MAX - COPY.length)}${COPY}`;

/** What both a new rule and a change of one send. */
export function ruleBody(
  { name, severity, kind, autoResolve, cooldownMinutes = 0 }: RuleForm,
  conditions: ConditionForms,
  target: DeviceTarget,
) {
  return { name, severity, target, condition: conditionOf(kind, conditions), autoResolve, cooldownMinutes };
}
