import { Group, MultiSelect, NumberInput, Select, TagsInput, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { ValueEditorProps } from 'react-querybuilder';
import { z } from 'zod';
import { apiQuery } from '../../../api/index.ts';
import { useNames, useOrganizations, useSites } from '../../../directory/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { formatWord } from '../../../ui/index.ts';
import { useField } from './controls.tsx';
import { shapeOf, type FilterField } from './fields.ts';

const UNITS = ['minutes', 'hours', 'days', 'weeks', 'months'];
const Texts = z.array(z.string()).catch([]);
const Range = z.object({ from: z.unknown(), to: z.unknown() }).catch({ from: undefined, to: undefined });
const Ago = z.object({ amount: z.unknown(), unit: z.string() }).catch({ amount: undefined, unit: 'days' });
const TIME_HINT = '2026-01-31 or 2026-01-31T08:00:00Z';

/** The control for the value of a condition, by the kind of its field and by its operator. */
export function ValueEditor(editor: ValueEditorProps) {
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

/** What was chosen and is gone is shown all the same, so that it can be dropped. */
const withChosen = (options: readonly Option[], chosen: readonly string[]): Option[] => [
  ...options,
  ...chosen
    .filter((each) => !options.some(({ value }) => value === each))
    .map((value) => ({ value, label: value })),
];

/** What a value can be, where that is known. */
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
