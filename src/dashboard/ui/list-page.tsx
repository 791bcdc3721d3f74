import { Checkbox, Group, SegmentedControl, Select, Stack, Text, TextInput } from '@mantine/core';
import { useDebouncedCallback, useHotkeys } from '@mantine/hooks';
import { IconSearch } from '@tabler/icons-react';
import { useNavigate } from '@tanstack/react-router';
import {
  useEffect,
  useRef,
  useState,
  isValidElement,
  type ComponentType,
  type ReactElement,
  type ReactNode,
} from 'react';
import { Action } from './action.tsx';
import { ChipChoice } from './chips.tsx';
import { formatWord } from './format.ts';
import { Page, type PageProps } from './page.tsx';
import { PagedTable, Steps, type Column, type PagePosition } from './paged-table.tsx';
import { SavedViews } from './saved-views.tsx';
import { Empty, Loaded, type Read } from './states.tsx';

/**
 * A page that lists things of the API: what narrows the list, its table, and what it shows if there are no rows. A
 * page declares the parts. `docs/adding-a-feature.md` shows a whole one.
 */
export function ListPage<Row, S extends object>({
  frame: Frame = Page,
  title,
  description,
  actions,
  views,
  notice,
  children,
  ...list
}: ListPageProps<Row, S>) {
  const { address } = list;
  const saved = views !== undefined && address !== undefined && (
    <SavedViews name={views} current={address.search} onOpen={address.open} />
  );
  return (
    <Frame
      title={title}
      description={description}
      actions={
        saved === false ? (
          actions
        ) : (
          <>
            {saved}
            {actions}
          </>
        )
      }
    >
      {notice}
      <List {...list} />
      {children}
    </Frame>
  );
}

export type ListPageProps<Row, S extends object> = Omit<PageProps, 'fill' | 'children'> &
  ListProps<Row, S> & {
    /** The frame around the list if the page belongs to an area, such as backup. */
    frame?: ComponentType<Omit<PageProps, 'fill'>>;
    /** Under this name, the browser keeps what a person looks at often. Without it, the list has no saved views. */
    views?: string;
    /** Before the list, such as what has become of the last action. */
    notice?: ReactNode;
    /** After the list, such as its dialogs and drawers. */
    children?: ReactNode;
  };

interface ListProps<Row, S extends object> {
  query: Read<{ data: readonly Row[]; pagination?: PagePosition }>;
  /** The noun for the rows, in the plural and as within a sentence: "encryption keys". */
  noun: string;
  /** The name of the table, for readers of screens, if it is more than the noun. */
  label?: string;
  columns: readonly (Column<Row> | false)[];
  keyOf: (row: Row) => string;
  /** The state of the list in the address. A list without facets can have `onPage` in its place, or be of one page. */
  address?: Address<S>;
  onPage?: (page: number) => void;
  /** The part of the address that says which page is shown, if a page of the dashboard has several lists. */
  pageName?: NameOf<S>;
  facets?: readonly Facet<S>[];
  /**
   * Of a list that is read on from a row, as very long ones are: the part of the address that names the row, and the one
   * from which the next page is read.
   */
  cursor?: { name: NameOf<S>; next: string | null | undefined };
  /** Below the table, such as a control that selects all of its rows. */
  foot?: (rows: readonly Row[]) => ReactNode;
  /** At the right of the facets, such as what is done with the selected rows. */
  tools?: ReactNode;
  /** The state of an empty list: what the rows are for, and the next step. */
  empty: { title: string; text: ReactNode; action?: ReactNode } | ReactElement;
  /** The state of a list whose facets exclude all rows. */
  noneFound?: { title?: string; text?: ReactNode; action?: ReactNode };
}

/** The list of a `ListPage`, for a part of a page, such as a tab. */
export function List<Row, S extends object>({
  query,
  noun,
  label = formatWord(noun),
  columns,
  keyOf,
  address,
  onPage,
  pageName,
  cursor,
  facets = [],
  tools,
  foot,
  empty,
  noneFound,
}: ListProps<Row, S>) {
  // Another view, and a choice that is always made, is another list, and none of this one is left out by it.
  const narrowed = facets
    .flatMap((facet) => (facet.kind === 'view' || 'first' in facet ? [] : [facet.name]))
    .filter((name) => address?.search[name] !== undefined);
  const begin = { page: undefined, ...(cursor === undefined ? {} : { [cursor.name]: undefined }) };
  const isLater = cursor !== undefined && address?.search[cursor.name] !== undefined;
  const turnTo = (page: number) =>
    onPage === undefined ? address?.put({ [pageName ?? 'page']: page }) : onPage(page);
  const firstText = facets.find(({ kind }) => kind === 'text');
  return (
    <Stack gap="sm">
      {(facets.length > 0 || tools !== undefined) && (
        <Group
          gap="sm"
          {...(facets.length === 0 ? {} : { role: 'search', 'aria-label': `Narrow the ${noun}` })}
        >
          {address !== undefined &&
            facets.map((facet) => (
              <FacetControl
                key={facet.name}
                facet={facet}
                address={address}
                begin={begin}
                takesSlash={facet === firstText}
              />
            ))}
          {tools}
        </Group>
      )}
      <Loaded query={query} what={`Reading ${noun}`}>
        {({ data, pagination }) =>
          data.length > 0 ? (
            <>
              <PagedTable
                label={label}
                rows={data}
                columns={columns}
                keyOf={keyOf}
                page={pagination}
                onPage={turnTo}
              />
              {(foot !== undefined || cursor !== undefined) && (
                <Group justify="space-between">
                  {foot?.(data) ?? <span />}
                  {cursor !== undefined && (
                    <Steps
                      back="First page"
                      onBack={isLater ? () => address?.put(begin) : undefined}
                      onNext={
                        cursor.next == null ? undefined : () => address?.put({ [cursor.name]: cursor.next })
                      }
                    />
                  )}
                </Group>
              )}
            </>
          ) : (pagination?.total ?? 0) > 0 || (pagination?.page ?? 1) > 1 ? (
            <Empty
              title="This page of the list is empty"
              action={
                <Action variant="default" onClick={() => turnTo(1)}>
                  First page
                </Action>
              }
            >
              The list has become shorter.
            </Empty>
          ) : (
            <Nothing
              noun={noun}
              empty={empty}
              noneFound={noneFound ?? {}}
              narrowed={narrowed}
              begin={begin}
              address={address}
            />
          )
        }
      </Loaded>
    </Stack>
  );
}

/** Stands in place of rows: the next step, or the way back to all rows. */
function Nothing<Row, S extends object>({
  noun,
  empty,
  noneFound = {},
  narrowed,
  begin,
  address,
}: Pick<ListProps<Row, S>, 'noun' | 'empty' | 'noneFound'> & {
  narrowed: readonly string[];
  /** The part of the address that leads to the first page. */
  begin: object;
  address: Address<S> | undefined;
}) {
  if (narrowed.length > 0) {
    const all = Object.fromEntries(narrowed.map((name) => [name, undefined]));
    return (
      <Empty
        title={noneFound.title ?? `No such ${noun}`}
        action={
          noneFound.action ?? (
            <Action variant="default" onClick={() => address?.put({ ...all, ...begin })}>
              Show all {noun}
            </Action>
          )
        }
      >
        {noneFound.text ?? 'Nothing matches what you have chosen.'}
      </Empty>
    );
  }
  if (isValidElement(empty)) return empty;
  return (
    <Empty title={empty.title} action={empty.action}>
      {empty.text}
    </Empty>
  );
}

/** The state of a list in the address: its page, and the values of its facets. */
export interface Address<S extends object> {
  search: S;
  /** Sets parts of the address and goes to the first page. */
  narrow: (next: Partial<S>) => void;
  /** Sets parts of the address and stays on the page, as when a row is opened. */
  set: (next: Partial<S>) => void;
  /** As `set`, for what the schema of the page's route has still to parse. */
  put: (next: Readonly<Record<string, unknown>>) => void;
  /** Goes to the list as these parts of the address say it, and to none of those that it has now. */
  open: (next: Readonly<Record<string, unknown>>) => void;
}

/**
 * The state of a list, which is in its address, so that a link and the way back show the same list.
 * @example const address = useAddress(route.useSearch());
 */
export function useAddress<S extends object>(search: S): Address<S> {
  const navigate = useNavigate();
  const put = (next: object) =>
    void navigate({ to: '.', search: (before) => ({ ...before, ...next }), replace: true });
  const open = (next: object) => void navigate({ to: '.', search: () => ({ ...next }) });
  return { search, put, open, set: put, narrow: (next) => put({ ...next, page: undefined }) };
}

/** As `useAddress`, for a list whose state is in no address, such as one in a dialog. */
export function useLocalAddress<S extends object>(begin: S): Address<S> {
  const [search, setSearch] = useState(begin);
  const put = (next: object) => setSearch((before) => ({ ...before, ...next }));
  const open = (next: object) => setSearch({ ...begin, ...next });
  return { search, put, open, set: put, narrow: (next) => put({ ...next, page: undefined }) };
}

type NameOf<S> = keyof S & string;
type Option<V extends string = string> = V | { value: V; label: string };

/** A control above a list that narrows it. `name` is the part of the address that it sets. */
export type Facet<S extends object> = { [Name in NameOf<S>]: FacetOf<S, Name> }[NameOf<S>];
type FacetOf<S, Name extends NameOf<S>> =
  | { kind: 'text'; name: Name; label: string; placeholder: string; width?: number; maxLength?: number }
  /** `shown` stands before the field where several days are chosen; `fault` is what is wrong with the chosen one. */
  | { kind: 'day'; name: Name; label: string; shown?: string; fault?: string | false }
  | {
      kind: 'choice';
      name: Name;
      label: string;
      /** The text while nothing is chosen: "Any state". */
      any: string;
      options: readonly Option<TextOf<S[Name]>>[];
      width?: number;
      isSearchable?: boolean;
      /** The choice while the address names none. One is then always chosen, and each is a list of its own. */
      first?: string;
      /** Other parts of the address that mean nothing for another choice. */
      resets?: Partial<S>;
    }
  | {
      /** Another list in place of the one that is shown at first. */
      kind: 'view';
      name: Name;
      label: string;
      /** The name of the list that is shown while the address names no other. */
      first: string;
      options: readonly Option<TextOf<S[Name]>>[];
    }
  | {
      /** Some of a few; none is as good as all, apart from those that are chosen at first. */
      kind: 'chips';
      name: Name;
      label: string;
      options: readonly string[];
      atFirst?: readonly string[];
    }
  /** Any other control, which sets the part of the address by itself. */
  | { kind: 'own'; name: Name; control: ReactNode }
  /** A part that other pages set in links to the list, and that has no control here. */
  | { kind: 'hidden'; name: Name };
type TextOf<T> = Extract<T, string>;

const optionsOf = (options: readonly Option[]) =>
  options.map((option) =>
    typeof option === 'string' ? { value: option, label: formatWord(option) } : option,
  );

function FacetControl<S extends object>({
  facet,
  address,
  begin,
  takesSlash,
}: {
  facet: Facet<S>;
  address: Address<S>;
  begin: object;
  takesSlash: boolean;
}) {
  if (facet.kind === 'own') return facet.control;
  if (facet.kind === 'hidden') return null;
  const { name, label } = facet;
  const current: unknown = address.search[name];
  const text = typeof current === 'string' ? current : undefined;
  const narrow = (value: unknown) => address.put({ ...begin, [name]: value });
  switch (facet.kind) {
    case 'text':
      return <SearchBox {...facet} value={text} onSearch={narrow} takesSlash={takesSlash} />;
    case 'day':
      return (
        <TextInput
          type="date"
          aria-label={label}
          {...(facet.shown === undefined
            ? {}
            : { leftSection: <Text size="xs">{facet.shown}</Text>, leftSectionWidth: 44 })}
          error={facet.fault}
          value={text ?? ''}
          onChange={({ currentTarget: { value } }) => narrow(value === '' ? undefined : value)}
        />
      );
    case 'choice':
      return (
        <Select
          w={facet.width ?? 160}
          aria-label={label}
          placeholder={facet.any}
          clearable={facet.first === undefined}
          allowDeselect={facet.first === undefined}
          clearButtonProps={{ 'aria-label': facet.any }}
          searchable={facet.isSearchable === true}
          data={optionsOf(facet.options)}
          value={text ?? facet.first ?? null}
          onChange={(value) => address.put({ ...begin, ...facet.resets, [name]: value ?? undefined })}
        />
      );
    case 'view':
      return (
        <SegmentedControl
          aria-label={label}
          data={[{ value: '', label: facet.first }, ...optionsOf(facet.options)]}
          value={text ?? ''}
          onChange={(value) => narrow(value === '' ? undefined : value)}
        />
      );
    default:
      return (
        <ChipChoice
          label={label}
          values={facet.options}
          chosen={
            Array.isArray(current)
              ? facet.options.filter((option) => current.includes(option))
              : (facet.atFirst ?? [])
          }
          onChange={(chosen) =>
            narrow(chosen.length === 0 && facet.atFirst === undefined ? undefined : chosen)
          }
        />
      );
  }
}

const PAUSE_MS = 300;

/** A text that is looked for while it is typed. */
function SearchBox({
  label,
  placeholder,
  width = 240,
  maxLength,
  value,
  onSearch,
  takesSlash,
}: {
  label: string;
  placeholder: string;
  width?: number;
  maxLength?: number;
  value: string | undefined;
  onSearch: (text: string | undefined) => void;
  /** Whether the key / leads here, as the list of all keys says. */
  takesSlash: boolean;
}) {
  const box = useRef<HTMLInputElement>(null);
  useHotkeys(takesSlash ? [['/', () => box.current?.focus()]] : []);
  const search = useDebouncedCallback((text: string) => onSearch(text === '' ? undefined : text), PAUSE_MS);
  useEffect(() => {
    // The address changes by the way back as well. What is being typed is ahead of it.
    if (box.current !== null && box.current !== document.activeElement) box.current.value = value ?? '';
  }, [value]);
  return (
    <TextInput
      ref={box}
      w={width}
      placeholder={placeholder}
      aria-label={label}
      leftSection={<IconSearch size={14} aria-hidden />}
      maxLength={maxLength}
      defaultValue={value ?? ''}
      onChange={(event) => search(event.currentTarget.value.trim())}
    />
  );
}

const NONE: ReadonlySet<string> = new Set();

/** Rows that are selected to do something with them, until another list is shown, and the column that selects them. */
export function useSelection({ search }: Address<object>) {
  const list = JSON.stringify(search);
  const [selected, setSelected] = useState({ list, ids: NONE });
  const chosen = selected.list === list ? selected.ids : NONE;
  const toggle = (id: string) => {
    const ids = new Set(chosen);
    if (!ids.delete(id)) ids.add(id);
    setSelected({ list, ids });
  };
  return {
    chosen,
    clear: () => setSelected({ list, ids: NONE }),
    column: <Row extends { id: string }>(nameOf: (row: Row) => string): Column<Row> => ({
      header: 'Select',
      width: 60,
      cell: (row) => (
        <Checkbox
          aria-label={`Select ${nameOf(row)}`}
          checked={chosen.has(row.id)}
          onChange={() => toggle(row.id)}
        />
      ),
    }),
  };
}
