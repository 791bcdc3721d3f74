import { Grid, Group, List, Select, Stack, Tabs, Text, Textarea, TextInput } from '@mantine/core';
import { IconCopy, IconDeviceFloppy, IconTrash } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useMemo, useState } from 'react';
import { apiQuery, useApiChange, type Filter } from '../../api/index.ts';
import { useNames, useOrganizations } from '../../directory.ts';
import { useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import { Action, ConfirmAction, Empty, Loaded, Page, TextLink, Notice } from '../../ui/index.ts';
import { Builder } from './builder.tsx';
import {
  checkConditions,
  fitsBuilder,
  fromQuery,
  parseConditions,
  toQuery,
  without,
  type Conditions,
} from './conditions.ts';
import { toApi, PreviewPanel, Refused } from './preview-panel.tsx';
import { EXAMPLES } from './examples.ts';
import { ExplainPanel } from './explain-panel.tsx';
import { UsedBy } from './filters-page.tsx';

const newRoute = getRouteApi('/signed-in/filters/new');
const filterRoute = getRouteApi('/signed-in/filters/$filterId');
const REFRESHES = ['GET /filters', 'GET /filters/{id}', 'GET /groups'] as const;

const BEGIN: Conditions = {
  operator: 'AND',
  conditions: [{ field: 'status', operator: 'equals', value: 'online' }],
};

/** A filter that is made, from nothing or from an example. */
export function NewFilterPage() {
  const { tab, example: wanted } = newRoute.useSearch();
  const navigate = newRoute.useNavigate();
  const example = EXAMPLES.find(({ id }) => id === wanted);
  return (
    <FilterEditor
      key={wanted ?? ''}
      start={example?.conditions ?? BEGIN}
      name={example?.name ?? ''}
      description={example?.description ?? ''}
      tab={tab ?? 'builder'}
      onTab={(next) => void navigate({ search: (previous) => ({ ...previous, tab: next }), replace: true })}
    />
  );
}

/** A saved filter. */
export function FilterPage() {
  const { filterId: id } = filterRoute.useParams();
  const { tab } = filterRoute.useSearch();
  const navigate = filterRoute.useNavigate();
  const filter = useQuery(apiQuery('GET /filters/{id}', { params: { id } }));
  return (
    <Loaded query={filter} what="Reading the filter">
      {(data) => {
        const checked = checkConditions(data.conditions);
        if ('fault' in checked) {
          return (
            <Page title={data.name}>
              <Empty title="This filter cannot be shown here">{checked.fault}</Empty>
            </Page>
          );
        }
        return (
          <FilterEditor
            key={`${data.id} ${data.updatedAt}`}
            filter={data}
            start={checked.conditions}
            name={data.name}
            description={data.description ?? ''}
            tab={tab ?? 'builder'}
            onTab={(next) =>
              void navigate({ search: (previous) => ({ ...previous, tab: next }), replace: true })
            }
          />
        );
      }}
    </Loaded>
  );
}

function FilterEditor({
  filter,
  start,
  name: firstName,
  description: firstDescription,
  tab,
  onTab,
}: {
  filter?: Filter;
  start: Conditions;
  name: string;
  description: string;
  tab: 'builder' | 'json';
  onTab: (tab: 'builder' | 'json') => void;
}) {
  const open = useNavigate();
  const scope = useScope();
  const organizations = useOrganizations();
  const names = useNames();
  const [name, setName] = useState(firstName);
  const [description, setDescription] = useState(firstDescription);
  const [chosenOrg, setChosenOrg] = useState<string>();
  const [query, setQuery] = useState(() => toQuery(start));
  const [text, setText] = useState<string>();
  const conditions = useMemo(() => fromQuery(query), [query]);
  const parsed = text === undefined ? undefined : parseConditions(text);
  const fault = parsed !== undefined && 'fault' in parsed ? parsed.fault : undefined;
  const fits = useMemo(() => fitsBuilder(conditions), [conditions]);

  const mayWrite = useRefusal('filters:write');
  const mayDelete = useRefusal('filters:delete');
  const create = useApiChange('POST /filters', { refreshes: REFRESHES });
  const change = useApiChange('PATCH /filters/{id}', { refreshes: REFRESHES });
  const remove = useApiChange('DELETE /filters/{id}', { refreshes: ['GET /filters'] });
  const orgId =
    filter?.orgId ??
    chosenOrg ??
    scope.orgId ??
    (organizations.length === 1 ? organizations[0]?.id : undefined);
  const isNew = filter === undefined;
  const isChanged =
    name !== firstName ||
    description !== firstDescription ||
    JSON.stringify(conditions) !== JSON.stringify(start);
  const missing =
    name.trim() === ''
      ? 'Give the filter a name first.'
      : orgId === undefined
        ? 'Choose the organization first.'
        : conditions.conditions.length === 0
          ? 'A filter needs a condition.'
          : fault !== undefined
            ? 'The JSON has a fault.'
            : !isNew && !isChanged
              ? 'Nothing has changed.'
              : undefined;
  const saving = isNew ? create : change;

  const save = async (asCopy: boolean) => {
    const body = {
      name: asCopy ? `${name.trim()} (copy)` : name.trim(),
      description: description.trim() === '' ? null : description.trim(),
      conditions: toApi(conditions),
    };
    if (filter !== undefined && !asCopy) {
      await change.mutateAsync({ params: { id: filter.id }, body });
      return;
    }
    const made = await create.mutateAsync({ body: { ...body, ...(orgId === undefined ? {} : { orgId }) } });
    await open({ to: '/filters/$filterId', params: { filterId: made.id } });
  };
  /** The failure is shown where it belongs. */
  const trySave = (asCopy: boolean) => void save(asCopy).catch(() => undefined);
  const editJson = (next: string) => {
    setText(next);
    const result = parseConditions(next);
    if ('conditions' in result) setQuery(toQuery(result.conditions));
  };
  const changeTab = (next: 'builder' | 'json') => {
    setText(undefined);
    onTab(next);
  };

  return (
    <Page
      title={isNew ? 'New filter' : filter.name}
      description={
        isNew ? undefined : (
          <Group gap={6}>
            <span>{names.organization(filter.orgId)} · used by</span> <UsedBy filterId={filter.id} />
          </Group>
        )
      }
      actions={
        <>
          {filter !== undefined && (
            <>
              <TextLink size="sm" to="/devices" search={{ filter: filter.id }}>
                Show devices
              </TextLink>
              <Action
                variant="default"
                refusal={mayWrite ?? (fault === undefined ? undefined : 'The JSON has a fault.')}
                icon={IconCopy}
                onClick={() => trySave(true)}
              >
                Save a copy
              </Action>
              <ConfirmAction
                variant="default"
                refusal={mayDelete}
                icon={IconTrash}
                title={`Delete ${filter.name}`}
                question="This cannot be undone. A filter that something uses is not deleted."
                confirm="Delete"
                run={async () => {
                  await remove.mutateAsync({ params: { id: filter.id } });
                  await open({ to: '/filters' });
                }}
              >
                Delete
              </ConfirmAction>
            </>
          )}
          <Action
            refusal={mayWrite ?? missing}
            loading={saving.isPending}
            icon={IconDeviceFloppy}
            onClick={() => trySave(false)}
          >
            {isNew ? 'Save filter' : 'Save'}
          </Action>
        </>
      }
    >
      {filter?.faults !== undefined && (
        <Notice tone="warning" title="This filter finds no devices">
          <Text size="sm">It refers to something that is gone. Correct it, and save it.</Text>
          <List size="sm">
            {filter.faults.map(({ path, message }) => (
              <List.Item key={path}>
                {path}: {message}
              </List.Item>
            ))}
          </List>
        </Notice>
      )}
      {create.error !== null && <Refused error={create.error} />}
      {change.error !== null && <Refused error={change.error} />}
      <Group align="flex-end" gap="sm">
        <TextInput
          w={260}
          label="Name"
          required
          maxLength={200}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <TextInput
          flex={1}
          miw={220}
          label="Description"
          maxLength={1000}
          value={description}
          onChange={(event) => setDescription(event.currentTarget.value)}
        />
        {isNew && organizations.length > 1 && (
          <Select
            w={220}
            label="Organization"
            required
            searchable
            allowDeselect={false}
            data={organizations.map((each) => ({ value: each.id, label: each.name }))}
            value={orgId ?? null}
            onChange={(next) => setChosenOrg(next ?? undefined)}
          />
        )}
      </Group>
      <Grid gap="md">
        <Grid.Col span={{ base: 12, lg: 7 }}>
          <Tabs value={tab} onChange={(next) => changeTab(next === 'json' ? 'json' : 'builder')}>
            <Tabs.List mb="sm" aria-label="How the conditions are shown">
              <Tabs.Tab value="builder">Conditions</Tabs.Tab>
              <Tabs.Tab value="json">JSON</Tabs.Tab>
            </Tabs.List>
            <Tabs.Panel value="builder">
              {tab !== 'builder' ? null : fits ? (
                <Builder query={query} onChange={setQuery} disabled={mayWrite !== undefined && !isNew} />
              ) : (
                <Empty title="Too many conditions to be shown one by one">Change them as JSON.</Empty>
              )}
            </Tabs.Panel>
            <Tabs.Panel value="json">
              {tab === 'json' && (
                <Textarea
                  label="Conditions as the API takes them"
                  autosize
                  minRows={12}
                  maxRows={30}
                  spellCheck={false}
                  styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
                  value={text ?? JSON.stringify(conditions, null, 2)}
                  onChange={(event) => editJson(event.currentTarget.value)}
                  error={fault}
                />
              )}
            </Tabs.Panel>
          </Tabs>
        </Grid.Col>
        <Grid.Col span={{ base: 12, lg: 5 }}>
          <Stack gap="sm">
            <PreviewPanel conditions={conditions} />
            <ExplainPanel
              conditions={conditions}
              onDrop={(place) => {
                const left = without(conditions, place);
                if (left === undefined) return;
                setText(undefined);
                setQuery(toQuery(left));
              }}
            />
          </Stack>
        </Grid.Col>
      </Grid>
    </Page>
  );
}
