import {
  Checkbox,
  MultiSelect,
  NumberInput,
  PasswordInput,
  Radio,
  Select,
  SimpleGrid,
  Stack,
  Switch,
  Text,
  Textarea,
  TextInput,
} from '@mantine/core';
import { useState, type ReactNode } from 'react';
import { formatWord } from './format.ts';
import { EMAIL_INPUT } from './submit.ts';

/** The values of a form. If they are the body of a request, they have the type of its schema. */
export interface Form<V extends object> {
  values: V;
  set: (change: Partial<V>) => void;
  /** As `set` of one value, whose type the declaration of its field has checked. */
  put: (name: string, value: unknown) => void;
}

export function useForm<V extends object>(begin: V | (() => V)): Form<V> {
  const [values, setValues] = useState(begin);
  return {
    values,
    set: (change) => setValues((before) => ({ ...before, ...change })),
    put: (name, value) => setValues((before) => ({ ...before, [name]: value })),
  };
}

type Option<V extends string = string> =
  | V
  | { readonly value: V; readonly label: string; readonly disabled?: boolean };
/** The values of strings that are one of a few, such as a state, are declared with the options of exactly this type. */
type TextOf<T> = Extract<T, string>;

interface Shared<V> {
  label: string;
  description?: ReactNode;
  required?: boolean;
  placeholder?: string | undefined;
  /** Other values that no longer fit when this one is changed, such as the site of another organization. */
  resets?: Partial<V>;
  /** Where the API finds fault with the field, if that is not its name. */
  fault?: string;
  /** The text in the field until something is typed, such as a short name made from the name. */
  shown?: string | undefined;
}
interface TextField {
  /** `day` and `time` are those of the calendar and the clock of this computer. */
  kind?: 'text' | 'area' | 'email' | 'password' | 'day' | 'time';
  maxLength?: number;
}
interface NumberField {
  kind: 'number';
  min?: number;
  max?: number;
  suffix?: string;
  /** How many places behind the point may be put in. Without it, the number is whole. */
  decimals?: number;
}
interface ChoiceField<T> {
  kind: 'choice';
  options: readonly Option<TextOf<T>>[];
  isSearchable?: boolean;
  disabled?: boolean;
  /** Why nothing can be chosen. */
  refusal?: string | undefined;
  /** The text if no option matches. */
  nothingFound?: string;
}
/** One of a few, each with what it means, of which one is always chosen. */
interface RadioField<T> {
  kind: 'radio';
  options: readonly { value: TextOf<T>; label: string; description?: string; disabled?: boolean }[];
}
interface ChoicesField {
  kind: 'choices';
  options: readonly Option[];
}
/** A control of another kind, which gets what a control of a field gets. */
interface OwnField<T> {
  control: (field: { value: T; onChange: (value: T) => void; error: string | undefined }) => ReactNode;
}

type KindOf<T> = [NonNullable<T>] extends [boolean]
  ? { kind: 'checkbox' | 'switch' }
  : [NonNullable<T>] extends [number]
    ? NumberField
    : [NonNullable<T>] extends [readonly string[]]
      ? ChoicesField
      : [NonNullable<T>] extends [string]
        ? TextField | ChoiceField<T> | RadioField<T>
        : never;
/** The value of an emptied field, if it may be empty. */
type EmptyOf<T> = null extends T ? { empty: null } : undefined extends T ? { empty: undefined } : object;

type FieldOf<V, Name extends keyof V & string> =
  | ({ name: Name } & Shared<V> & KindOf<V[Name]> & EmptyOf<V[Name]>)
  | ({ name: Name; fault?: string } & OwnField<V[Name]>);
/** A text between the fields. Its name tells it from others. */
interface Note {
  note: string;
  text: ReactNode;
}
/** One field of a form: what it is called and what may be put in; or a note. */
export type Field<V extends object> =
  | { [Name in keyof V & string]: FieldOf<V, Name> }[keyof V & string]
  | Note;
/** Fields in their order: those in an inner list stand side by side, and what is `false` is left out. */
export type Fields<V extends object> = readonly (Field<V> | readonly (Field<V> | false)[] | false)[];

/** A field as it is drawn: its declaration has checked what it holds. */
type Drawn = DrawnField | Note;
type DrawnField = { name: string; fault?: string } & (
  | (Shared<object> & { empty?: null | undefined } & (
        | TextField
        | NumberField
        | ChoiceField<string>
        | RadioField<string>
        | ChoicesField
        | { kind: 'checkbox' | 'switch' }
      ))
  | OwnField<unknown>
);

interface Props<F, E> {
  form: F;
  fields: readonly (E | readonly (E | false)[] | false)[];
  /** The rules that values break, by the path of the field as the API names it. */
  faults: Readonly<Record<string, string>>;
}

/** The controls of a form, each with the rule that its value breaks. */
export function FormFields<V extends object>(props: Props<Form<V>, Field<NoInfer<V>>>): ReactNode;
export function FormFields({ form, fields, faults }: Props<Form<object>, Drawn>): ReactNode {
  const rows = fields.flatMap((entry) => (entry === false ? [] : [[entry].flat()]));
  const first = rows.flat().find((field) => field !== false && isTyped(field));
  return rows.map((row) => {
    const controls = row.flatMap((field) =>
      field === false
        ? []
        : 'note' in field
          ? [
              <Text key={field.note} size="sm" component="div">
                {field.text}
              </Text>,
            ]
          : [
              <Control
                key={field.name}
                field={field}
                form={form}
                isFirst={field === first}
                error={faultAt(faults, field.fault ?? field.name)}
              />,
            ],
    );
    return controls.length < 2 ? (
      controls
    ) : (
      <SimpleGrid key={controls.map(({ key }) => key).join()} cols={{ base: 1, sm: controls.length }}>
        {controls}
      </SimpleGrid>
    );
  });
}

/** Whether the field takes text, so that the focus may be in it as soon as the form is open. */
const isTyped = (field: Drawn): boolean =>
  !('control' in field || 'note' in field) &&
  (!('kind' in field) || ['text', 'email', 'day'].includes(field.kind ?? 'text'));

/** The rule that a field, or one of the items in it, breaks. A form that only reads sends its fields in the query. */
const faultAt = (faults: Readonly<Record<string, string>>, name: string): string | undefined =>
  faults[name] ??
  faults[`query.${name}`] ??
  Object.entries(faults).find(([path]) => path.startsWith(`${name}.`))?.[1];

const optionsOf = (options: readonly Option[]) =>
  options.map((option) =>
    typeof option === 'string' ? { value: option, label: formatWord(option) } : option,
  );

function Control({
  field,
  form,
  isFirst,
  error,
}: {
  field: DrawnField;
  form: Form<object>;
  isFirst: boolean;
  error: string | undefined;
}) {
  const value: unknown = new Map<string, unknown>(Object.entries(form.values)).get(field.name);
  const put = (next: unknown) => form.put(field.name, next);
  if ('control' in field) return field.control({ value, onChange: put, error });
  const { label, description, required = false, placeholder, resets = {} } = field;
  const change = (next: unknown) => {
    form.set(resets);
    put(next);
  };
  const shared = { label, description, required, placeholder, error };
  const text = typeof value === 'string' ? value : undefined;
  const mayBeEmpty = 'empty' in field;
  switch (field.kind) {
    case 'number':
      return (
        <NumberInput
          {...shared}
          min={field.min ?? Number.NEGATIVE_INFINITY}
          max={field.max ?? Number.POSITIVE_INFINITY}
          suffix={field.suffix ?? ''}
          allowDecimal={field.decimals !== undefined}
          decimalScale={field.decimals ?? 0}
          value={typeof value === 'number' ? value : ''}
          onChange={(next) => change(typeof next === 'number' ? next : field.empty)}
        />
      );
    case 'checkbox':
    case 'switch': {
      const Box = field.kind === 'switch' ? Switch : Checkbox;
      return (
        <Box
          label={label}
          description={description}
          error={error}
          required={required}
          checked={value === true}
          onChange={(event) => change(event.currentTarget.checked)}
        />
      );
    }
    case 'choice':
      return (
        <Select
          {...shared}
          data={optionsOf(field.options)}
          searchable={field.isSearchable === true}
          disabled={field.disabled === true}
          nothingFoundMessage={field.nothingFound}
          clearable={mayBeEmpty && !required}
          clearButtonProps={{ 'aria-label': `No ${label.toLowerCase()}` }}
          allowDeselect={mayBeEmpty && !required}
          value={text ?? field.shown ?? null}
          error={error ?? field.refusal}
          onChange={(next) => change(next ?? field.empty)}
        />
      );
    case 'radio':
      return (
        <Radio.Group {...shared} value={text ?? field.shown ?? null} onChange={change}>
          <Stack gap="xs" mt="xs">
            {field.options.map((option) => (
              <Radio key={option.value} {...option} />
            ))}
          </Stack>
        </Radio.Group>
      );
    case 'choices':
      return (
        <MultiSelect
          {...shared}
          searchable
          limit={100}
          data={optionsOf(field.options)}
          value={Array.isArray(value) ? value.filter((each) => typeof each === 'string') : []}
          onChange={change}
        />
      );
    default: {
      const Input = field.kind === 'area' ? Textarea : field.kind === 'password' ? PasswordInput : TextInput;
      return (
        <Input
          {...shared}
          {...KINDS[field.kind ?? 'text']}
          maxLength={field.maxLength}
          value={text ?? field.shown ?? ''}
          onChange={(event: { currentTarget: { value: string } }) => {
            const next = event.currentTarget.value;
            change(mayBeEmpty && next.trim() === '' ? field.empty : next);
          }}
          data-autofocus={isFirst || undefined}
        />
      );
    }
  }
}

const KINDS = {
  text: {},
  area: { autosize: true, minRows: 2, maxRows: 6 },
  email: EMAIL_INPUT,
  password: { autoComplete: 'off' },
  day: { type: 'date' },
  time: { type: 'datetime-local', step: 1 },
} as const;

/** What the control of an own field gets. */
export interface TimeField {
  value: string;
  onChange: (time: string) => void;
  error: string | undefined;
}

/** A time of the day in a zone that another field names, which may be another one than that of this computer. */
export function TimeOfDay({
  label,
  description,
  value,
  onChange,
  error,
}: TimeField & { label: string; description?: string }) {
  return (
    <TextInput
      type="time"
      label={label}
      description={description}
      required
      value={value}
      error={error}
      onChange={({ currentTarget }) => onChange(currentTarget.value)}
    />
  );
}
