import { ActionIcon, Button, SegmentedControl, Select } from '@mantine/core';
import { IconPlus, IconX } from '@tabler/icons-react';
import type {
  ActionProps,
  CombinatorSelectorProps,
  FieldSelectorProps,
  OperatorSelectorProps,
} from 'react-querybuilder';
import { createContext, useContext } from 'react';
import { type FilterField, OPERATORS, operatorName } from './fields.ts';

/** The fields that can be chosen; of others, such as custom fields that are gone, the name is shown. */
export const FieldsContext = createContext<ReadonlyMap<string, FilterField>>(new Map());

export const unknownField = (name: string): FilterField => ({
  name,
  label: name,
  group: 'Unknown',
  kind: 'string',
});

export function useField(name: string): FilterField {
  return useContext(FieldsContext).get(name) ?? unknownField(name);
}

const placeOf = (path: readonly number[]) => (path.length === 0 ? 'all' : path.map((at) => at + 1).join('.'));

export function FieldSelect(props: FieldSelectorProps) {
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

export function OperatorSelect(props: OperatorSelectorProps) {
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

export function CombinatorSelect(props: CombinatorSelectorProps) {
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
export const AddCondition = (props: ActionProps) => <Add {...props} noun="condition" />;
export const AddGroup = (props: ActionProps) => <Add {...props} noun="group" />;

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
export const RemoveCondition = (props: ActionProps) => <Remove {...props} noun="condition" />;
export const RemoveGroup = (props: ActionProps) => <Remove {...props} noun="group" />;
