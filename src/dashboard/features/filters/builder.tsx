import { useQuery } from '@tanstack/react-query';
import { useMemo, createContext, useContext } from 'react';
import {
  QueryBuilder,
  type RuleGroupType,
  type ValueEditorProps,
  type ActionProps,
  type CombinatorSelectorProps,
  type FieldSelectorProps,
  type OperatorSelectorProps,
} from 'react-querybuilder';
import { apiQuery } from '../../api/index.ts';
import { useRefusal } from '../../session.ts';
import {
  customFields,
  FIELDS,
  firstValue,
  OPERATORS,
  shapeOf,
  type FilterField,
  operatorName,
} from './fields.ts';
import {
  Group,
  MultiSelect,
  NumberInput,
  Select,
  TagsInput,
  Text,
  TextInput,
  ActionIcon,
  Button,
  SegmentedControl,
} from '@mantine/core';
import { IconPlus, IconX } from '@tabler/icons-react';
import { z } from 'zod';
import { useNames, useOrganizations, useSites } from '../../directory.ts';
import { formatWord } from '../../ui/index.ts';
import styles from './builder.module.css';

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

/** The fields that can be chosen; of others, such as custom fields that are gone, the name is shown. */
const FieldsContext = createContext<ReadonlyMap<string, FilterField>>(new Map());

const unknownField = (name: string): FilterField => ({
  name,
  label: name,
  group: 'Unknown',
  kind: 'string',
});

function useField(name: string): FilterField {
  return useContext(FieldsContext).get(name) ?? unknownField(name);
}

const placeOf = (path: readonly number[]) => (path.length === 0 ? 'all' : path.map((at) => at + 1).join('.'));

function FieldSelect(props: FieldSelectorProps) {
  const { value, path, disabled } = props;
  const fields = useContext(FieldsContext);
  const name = value ?? '';
  const all = fields.has(name) ? [...fields.values()] : [...fields.values(), unknownField(name)];
  const groups = [...new Set(all.map(({ group }) => group))];
  return (
    <Select
      w={165}
      aria-label={`Field of condition ${placeOf(path)}`}
      searchable
      allowDeselect={false}
      disabled={disabled === true}
      data={groups.map((group) => ({
        group,
        items: all
          .filter((each) => each.group === group)
          .map((each) => ({ value: each.name, label: each.label })),
      }))}
      value={name}
      onChange={(next) => {
        if (next !== null) props.handleOnChange(next);
      }}
    />
  );
}

function OperatorSelect(props: OperatorSelectorProps) {
  const { value, path, field, disabled } = props;
  const { kind } = useField(field);
  const known = OPERATORS[kind];
  const operator = value ?? '';
  const offered = known.includes(operator) ? known : [...known, operator];
  return (
    <Select
      w={145}
      aria-label={`Operator of condition ${placeOf(path)}`}
      allowDeselect={false}
      disabled={disabled === true}
      data={offered.map((each) => ({ value: each, label: operatorName(each, kind) }))}
      value={operator}
      onChange={(next) => {
        if (next !== null) props.handleOnChange(next);
      }}
    />
  );
}

function CombinatorSelect(props: CombinatorSelectorProps) {
  const { value, path, disabled } = props;
  return (
    <SegmentedControl
      aria-label={
        path.length === 0 ? 'How the conditions are joined' : `How group ${placeOf(path)} is joined`
      }
      disabled={disabled === true}
      data={[
        { value: 'AND', label: 'All of' },
        { value: 'OR', label: 'Any of' },
      ]}
      value={value ?? 'AND'}
      onChange={(next) => props.handleOnChange(next)}
    />
  );
}

function Add(props: ActionProps & { noun: string }) {
  const { disabled, path, noun } = props;
  return (
    <Button
      variant="subtle"
      disabled={disabled === true}
      aria-label={path.length === 0 ? `Add a ${noun}` : `Add a ${noun} to group ${placeOf(path)}`}
      leftSection={<IconPlus size={12} aria-hidden />}
      onClick={(event) => props.handleOnClick(event)}
    >
      {noun === 'group' ? 'Group' : 'Condition'}
    </Button>
  );
}
const AddCondition = (props: ActionProps) => <Add {...props} noun="condition" />;
const AddGroup = (props: ActionProps) => <Add {...props} noun="group" />;

function Remove(props: ActionProps & { noun: string }) {
  const { disabled, path, noun } = props;
  return (
    <ActionIcon
      variant="subtle"
      color="gray"
      disabled={disabled === true}
      aria-label={`Remove ${noun} ${placeOf(path)}`}
      onClick={(event) => props.handleOnClick(event)}
    >
      <IconX size={14} />
    </ActionIcon>
  );
}
const RemoveCondition = (props: ActionProps) => <Remove {...props} noun="condition" />;
const RemoveGroup = (props: ActionProps) => <Remove {...props} noun="group" />;

const UNITS = ['minutes', 'hours', 'days', 'weeks', 'months'];
const Texts = z.array(z.string()).catch([]);
const Range = z.object({ from: z.unknown(), to: z.unknown() }).catch({ from: undefined, to: undefined });
const Ago = z.object({ amount: z.unknown(), unit: z.string() }).catch({ amount: undefined, unit: 'days' });
const TIME_HINT = '2026-01-31 or 2026-01-31T08:00:00Z';

/** The control for the value of a condition, by the kind of its field and by its operator. */
function ValueEditor(editor: ValueEditorProps) {
  const { field: name, operator, path, disabled } = editor;
  const field = useField(name);
  const current: unknown = editor.value;
  const label = `Value of condition ${path.map((at) => at + 1).join('.')}`;
  const isDisabled = disabled === true;
  const change = (next: unknown): void => {
    editor.handleOnChange(next);
  };
  const props = { field, label, value: current, change, isDisabled };
  switch (shapeOf(operator)) {
    case 'none':
      return null;
    case 'many':
      return <Many {...props} />;
    case 'range': {
      const range = Range.parse(current);
      return (
        <Group gap={6} wrap="nowrap">
          <One
            {...props}
            label={`${label}, from`}
            value={range.from}
            change={(from) => change({ ...range, from })}
          />
          <Text size="sm">and</Text>
          <One {...props} label={`${label}, to`} value={range.to} change={(to) => change({ ...range, to })} />
        </Group>
      );
    }
    case 'ago': {
      const ago = Ago.parse(current);
      return (
        <Group gap={6} wrap="nowrap">
          <NumberInput
            w={80}
            aria-label={`${label}, amount`}
            min={1}
            allowDecimal={false}
            disabled={isDisabled}
            value={typeof ago.amount === 'number' ? ago.amount : ''}
            onChange={(amount) => change({ ...ago, amount: typeof amount === 'number' ? amount : undefined })}
          />
          <Select
            w={95}
            aria-label={`${label}, unit`}
            allowDeselect={false}
            disabled={isDisabled}
            data={UNITS}
            value={ago.unit}
            onChange={(unit) => change({ ...ago, unit })}
          />
        </Group>
      );
    }
    default:
      return <One {...props} />;
  }
}

interface EditorProps {
  field: FilterField;
  label: string;
  value: unknown;
  change: (next: unknown) => void;
  isDisabled: boolean;
}

function One({ field, label, value, change, isDisabled }: EditorProps) {
  const options = useOptions(field);
  const common = { 'aria-label': label, disabled: isDisabled, w: 170 };
  if (field.kind === 'number' || field.kind === 'days') {
    return (
      <NumberInput
        {...common}
        w={95}
        value={typeof value === 'number' ? value : ''}
        onChange={(next) => change(typeof next === 'number' ? next : undefined)}
      />
    );
  }
  if (field.kind === 'boolean') {
    return (
      <Select
        {...common}
        w={95}
        allowDeselect={false}
        data={[
          { value: 'true', label: 'Yes' },
          { value: 'false', label: 'No' },
        ]}
        value={typeof value === 'boolean' ? String(value) : null}
        onChange={(next) => change(next === 'true')}
      />
    );
  }
  const text = typeof value === 'string' ? value : '';
  if (options !== undefined) {
    return (
      <Select
        {...common}
        searchable
        allowDeselect={false}
        placeholder="Choose"
        data={withChosen(options, text === '' ? [] : [text])}
        value={text === '' ? null : text}
        onChange={(next) => change(next ?? undefined)}
      />
    );
  }
  return (
    <TextInput
      {...common}
      placeholder={field.kind === 'datetime' ? TIME_HINT : 'Value'}
      value={text}
      onChange={(event) => change(event.currentTarget.value)}
    />
  );
}

function Many({ field, label, value, change, isDisabled }: EditorProps) {
  const options = useOptions(field);
  const chosen = Texts.parse(value);
  const common = { 'aria-label': label, disabled: isDisabled, w: 240, value: chosen, onChange: change };
  return options === undefined ? (
    <TagsInput {...common} placeholder={chosen.length === 0 ? 'Enter ends a value' : ''} />
  ) : (
    <MultiSelect
      {...common}
      searchable
      data={withChosen(options, chosen)}
      placeholder={chosen.length === 0 ? 'Choose' : ''}
    />
  );
}

interface Option {
  value: string;
  label: string;
}

/** Adds chosen values that no longer exist, so that they can be removed. */
const withChosen = (options: readonly Option[], chosen: readonly string[]): Option[] => [
  ...options,
  ...chosen
    .filter((each) => !options.some(({ value }) => value === each))
    .map((value) => ({ value, label: value })),
];

/** The options for the value of a field; `undefined` if it takes any. */
function useOptions({ options, names }: FilterField): readonly Option[] | undefined {
  const organizations = useOrganizations();
  const sites = useSites();
  const known = useNames();
  const mayRead = useRefusal('devices:read') === undefined;
  const groups = useQuery({
    ...apiQuery('GET /groups', { query: { limit: '100' } }),
    enabled: names === 'groups' && mayRead,
  });
  if (options !== undefined) {
    return options.map((value) => ({ value, label: OPTION_NAMES[value] ?? formatWord(value) }));
  }
  switch (names) {
    case 'organizations':
      return organizations.map(({ id, name }) => ({ value: id, label: name }));
    case 'sites':
      return sites.map(({ id, name, orgId }) => ({
        value: id,
        label: organizations.length > 1 ? `${name} · ${known.organization(orgId)}` : name,
      }));
    case 'groups':
      return (groups.data?.data ?? []).map(({ id, name, orgId }) => ({
        value: id,
        label: organizations.length > 1 ? `${name} · ${known.organization(orgId)}` : name,
      }));
    default:
      return undefined;
  }
}

const OPTION_NAMES: Record<string, string> = { macos: 'macOS', arm64: 'arm64', x64: 'x64', x86: 'x86' };

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
