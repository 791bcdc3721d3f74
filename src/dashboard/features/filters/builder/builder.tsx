import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { QueryBuilder, type RuleGroupType } from 'react-querybuilder';
import { apiQuery } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import styles from './builder.module.css';
import {
  AddCondition,
  AddGroup,
  CombinatorSelect,
  FieldSelect,
  FieldsContext,
  OperatorSelect,
  RemoveCondition,
  RemoveGroup,
  unknownField,
} from './controls.tsx';
import { customFields, FIELDS, firstValue, OPERATORS } from './fields.ts';
import { ValueEditor } from './value-editor.tsx';

const CONTROLS = {
  fieldSelector: FieldSelect,
  operatorSelector: OperatorSelect,
  combinatorSelector: CombinatorSelect,
  valueEditor: ValueEditor,
  addRuleAction: AddCondition,
  addGroupAction: AddGroup,
  removeRuleAction: RemoveCondition,
  removeGroupAction: RemoveGroup,
};
const CLASSES = {
  ruleGroup: styles['group'] ?? '',
  header: styles['header'] ?? '',
  body: styles['body'] ?? '',
  rule: styles['rule'] ?? '',
};
const COMBINATORS = [
  { name: 'AND', label: 'All of' },
  { name: 'OR', label: 'Any of' },
];

/** Conditions in nested groups, with the fields that the server knows. */
export function Builder({
  query,
  onChange,
  disabled,
}: {
  query: RuleGroupType;
  onChange: (query: RuleGroupType) => void;
  disabled: boolean;
}) {
  const mayRead = useRefusal('devices:read') === undefined;
  const custom = useQuery({
    ...apiQuery('GET /custom-fields', { query: { limit: '100' } }),
    enabled: mayRead,
  });
  const fields = useMemo(
    () =>
      new Map(
        [...FIELDS, ...customFields(custom.data?.data ?? [])].map((field) => [field.name, field] as const),
      ),
    [custom.data],
  );
  const fieldNamed = (name: string) => fields.get(name) ?? unknownField(name);
  const offered = useMemo(() => [...fields.values()].map(({ name, label }) => ({ name, label })), [fields]);
  return (
    <FieldsContext value={fields}>
      <QueryBuilder
        query={query}
        onQueryChange={onChange}
        fields={offered}
        combinators={COMBINATORS}
        getOperators={(name) =>
          OPERATORS[fieldNamed(name).kind].map((operator) => ({ name: operator, label: operator }))
        }
        getDefaultValue={({ field, operator }) => firstValue(fieldNamed(field), operator)}
        resetOnOperatorChange
        addRuleToNewGroups
        controlElements={CONTROLS}
        controlClassnames={CLASSES}
        disabled={disabled}
        suppressStandardClassnames
      />
    </FieldsContext>
  );
}
