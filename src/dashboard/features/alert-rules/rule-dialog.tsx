import { useState } from 'react';
import { useApiChange, type AlertRule } from '../../api/index.ts';
import { FormDialog, FormFields, formatWord, type Form, useForm } from '../../ui/index.ts';
import { minutesText, SEVERITIES } from '../alert-words/index.ts';
import { NO_TARGET, targetFormOf, targetOf, useTargetFields } from '../device-targets/index.ts';
import { OF_PROVIDER, ownerBody, useFirstOwner, useOwnerChoice } from '../owners/index.ts';
import { ConditionPart, PartTitle } from './condition-fields.tsx';
import { conditionFormsOf, conditionOf, type ConditionForms, type ConditionKind } from './condition-form.ts';
import { PreviewPanel } from './preview-panel.tsx';
import { copyName, NAME_MAX, ruleBody, ruleFormOf } from './rule-form.ts';

export const RULE_READS = ['GET /alert-rules', 'GET /alert-rules/{id}'] as const;
/** Rules that are changed or deleted resolve alerts. */
export const RULE_AND_ALERT_READS = [...RULE_READS, 'GET /alerts', 'GET /alerts/summary'] as const;

/** What the dialog is opened for: a new rule, one like another, or a change of one. */
export type RuleTask = { kind: 'new' } | { kind: 'copy' | 'change'; rule: AlertRule };

export function RuleDialog({ task, onClose }: { task: RuleTask; onClose: () => void }) {
  const changed = task.kind === 'change' ? task.rule : undefined;
  const model = task.kind === 'new' ? undefined : task.rule;
  const firstOwner = useFirstOwner();
  const ownerChoice = useOwnerChoice();
  const form = useForm(() => ({
    ...ruleFormOf(model),
    ...(task.kind === 'copy' ? { name: copyName(task.rule.name) } : {}),
    ...targetFormOf(model?.target),
    owner: model === undefined ? undefined : (model.orgId ?? OF_PROVIDER),
  }));
  const [conditions, setConditions] = useState(() => conditionFormsOf(model?.condition));
  const { values, set } = form;
  const owner = values.owner ?? firstOwner;
  const { orgId } = ownerBody(owner);
  const targetFields = useTargetFields(orgId, values);
  const create = useApiChange('POST /alert-rules', { refreshes: RULE_READS });
  const change = useApiChange('PATCH /alert-rules/{id}', { refreshes: RULE_AND_ALERT_READS });
  const target = targetOf(values);
  const submit = () => {
    const body = ruleBody(values, conditions, target);
    return changed === undefined
      ? create.mutateAsync({ body: { ...ownerBody(owner), ...body } })
      : change.mutateAsync({ params: { id: changed.id }, body });
  };
  return (
    <FormDialog
      size="xl"
      title={changed === undefined ? 'New alert rule' : `Edit “${changed.name}”`}
      onClose={onClose}
      submit={submit}
      submitLabel={changed === undefined ? 'Create rule' : 'Save'}
      form={form}
      fields={[
        [
          { name: 'name', label: 'Name', required: true, maxLength: NAME_MAX },
          changed === undefined &&
            ownerChoice && { ...ownerChoice, shown: owner, empty: undefined, resets: NO_TARGET },
          {
            name: 'severity',
            kind: 'choice',
            label: 'Severity',
            options: SEVERITIES.map((value) => ({ value, label: formatWord(value) })),
          },
        ],
        ...targetFields,
      ]}
    >
      {(faults) => (
        <>
          <PartTitle>Condition</PartTitle>
          <ConditionPart
            kind={values.kind}
            onKind={(kind) => set({ kind })}
            form={formOfKind(values.kind, conditions, setConditions)}
            faults={faultsBelow(faults, 'condition')}
          />
          <PartTitle>Afterwards</PartTitle>
          <FormFields
            form={form}
            faults={faults}
            fields={[
              {
                name: 'autoResolve',
                kind: 'switch',
                label: 'Resolve the alert when the condition is no longer met',
                description: 'Off: it stays open until somebody resolves it.',
              },
              {
                name: 'cooldownMinutes',
                kind: 'number',
                label: 'Quiet time',
                description: `${
                  values.cooldownMinutes === undefined || values.cooldownMinutes < 60
                    ? ''
                    : `${minutesText(values.cooldownMinutes)}. `
                }So long after an alert was resolved, the rule raises no other one about the device. At most 7 days.`,
                suffix: ' min',
                min: 0,
                max: 10_080,
                required: true,
                empty: undefined,
              },
            ]}
          />
          <PreviewPanel
            body={{
              ...ownerBody(owner),
              target,
              condition: conditionOf(values.kind, conditions),
              cooldownMinutes: values.cooldownMinutes ?? 0,
            }}
          />
        </>
      )}
    </FormDialog>
  );
}

/** The part of the dialog's values that belongs to one kind of conditions. What was put in for the others stays. */
function formOfKind<K extends ConditionKind>(
  kind: K,
  conditions: ConditionForms,
  change: (next: (before: ConditionForms) => ConditionForms) => void,
): Form<ConditionForms[K]> {
  const set = (part: object) => change((before) => ({ ...before, [kind]: { ...before[kind], ...part } }));
  return { values: conditions[kind], set, put: (name, value) => set({ [name]: value }) };
}

/** The faults of what is below a field, by their paths from there. */
function faultsBelow(faults: Readonly<Record<string, string>>, field: string): Record<string, string> {
  return Object.fromEntries(
    Object.entries(faults).flatMap(([path, rule]) => {
      if (path === field) return [['', rule]];
      return path.startsWith(`${field}.`) ? [[path.slice(field.length + 1), rule]] : [];
    }),
  );
}
