import { Anchor, Button, Checkbox, Group, Select, SegmentedControl, Text, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconDownload, IconRestore, IconSearch } from '@tabler/icons-react';
import { keepPreviousData, useMutation, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, download, type CloudBackupConfig, type CloudBackupItem } from '../../../api/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, Empty, Failure, formatCount, Loaded, saveFile } from '../../../ui/index.ts';
import { CloudFrame } from '../parts/cloud-frame.tsx';
import { KIND_NAMES, KINDS } from '../parts/kinds.ts';
import { useCloudConfigs } from '../parts/lists.ts';
import { ItemDrawer } from './item-drawer.tsx';
import { ItemTable } from './item-table.tsx';
import { type Restored, RestoreDialog } from './restore-dialog.tsx';
import { UserSelect } from './user-select.tsx';

const route = getRouteApi('/signed-in/cloud-backup/items');
const LIMIT = '50';
/** Of one restore or one archive. */
const CHOSEN_MAX = 1000;

/** What cloud backups hold: to find, to look at, to download, and to restore. */
export function CloudItemsPage() {
  const { orgId } = scopeQuery(useScope());
  const { config: wanted } = route.useSearch();
  const configs = useCloudConfigs(orgId);
  return (
    <Loaded query={configs} what="Reading configurations">
      {({ data }) => {
        const config = data.find(({ id }) => id === wanted) ?? data[0];
        return config === undefined ? (
          <CloudFrame title="Cloud items">
            <Empty
              title="Nothing is backed up"
              action={
                <Anchor renderRoot={(props) => <Link {...props} to="/cloud-backup" />}>
                  To the configurations
                </Anchor>
              }
            >
              Messages, events, contacts and files appear here after the first run of a configuration.
            </Empty>
          </CloudFrame>
        ) : (
          // What is chosen belongs to one configuration.
          <Items key={config.id} config={config} configs={data} />
        );
      }}
    </Loaded>
  );
}

function Items({ config, configs }: { config: CloudBackupConfig; configs: readonly CloudBackupConfig[] }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { user, kind, q, state, after, item } = search;
  const change = (next: Partial<typeof search>) =>
    void navigate({ search: (previous) => ({ ...previous, after: undefined, ...next }), replace: true });
  const [chosen, setChosen] = useState<ReadonlyMap<string, CloudBackupItem>>(new Map());
  const [restored, setRestored] = useState<Restored>();
  const searchFor = useDebouncedCallback(
    (text: string) => change({ q: text === '' ? undefined : text }),
    400,
  );
  const execute = useRefusal('recovery:execute');
  const items = useQuery({
    ...apiQuery('GET /c2c/items', {
      query: {
        configId: config.id,
        userEmail: user,
        itemType: kind,
        search: q,
        isDeleted: state === undefined ? undefined : String(state === 'deleted'),
        after,
        limit: LIMIT,
      },
    }),
    placeholderData: keepPreviousData,
  });
  const archive = useMutation({
    mutationFn: async () => {
      const { blob, name } = await download('POST /c2c/items/export', {
        body: { itemIds: [...chosen.keys()] },
      });
      saveFile(name ?? 'cloud-backup.tar', blob);
    },
  });
  const choose = (some: readonly CloudBackupItem[], isChosen: boolean) =>
    setChosen((before) => {
      const next = new Map(before);
      for (const one of some) {
        if (isChosen) next.set(one.id, one);
        else next.delete(one.id);
      }
      return next;
    });
  const amount =
    chosen.size === 0
      ? 'Choose items in the list first.'
      : chosen.size > CHOSEN_MAX
        ? `At most ${formatCount(CHOSEN_MAX)} items at once.`
        : undefined;
  const isNarrowed = [user, kind, q, state].some((one) => one !== undefined);
  return (
    <CloudFrame
      title="Cloud items"
      description="The newest content of each item. Details have the earlier ones."
      actions={
        <>
          {chosen.size > 0 && (
            <Button variant="subtle" color="gray" onClick={() => setChosen(new Map())}>
              {formatCount(chosen.size)} chosen: drop
            </Button>
          )}
          <Action
            variant="default"
            refusal={execute ?? amount}
            loading={archive.isPending}
            leftSection={<IconDownload size={14} aria-hidden />}
            onClick={() => archive.mutate()}
          >
            Download
          </Action>
          <Action
            refusal={execute ?? amount}
            leftSection={<IconRestore size={14} aria-hidden />}
            onClick={() => setRestored({ items: [...chosen.values()] })}
          >
            Restore …
          </Action>
        </>
      }
    >
      <Group gap="sm">
        <Select
          aria-label="Configuration"
          allowDeselect={false}
          searchable
          w={200}
          data={configs.map(({ id, name }) => ({ value: id, label: name }))}
          value={config.id}
          onChange={(value) => change({ config: value ?? undefined, user: undefined, item: undefined })}
        />
        <UserSelect configId={config.id} value={user} onChange={(next) => change({ user: next })} />
        <Select
          aria-label="Kind"
          placeholder="Any kind"
          clearable
          w={120}
          data={KINDS.map((value) => ({ value, label: KIND_NAMES[value] }))}
          value={kind ?? null}
          onChange={(value) => change({ kind: KINDS.find((one) => one === value) })}
        />
        <SegmentedControl
          aria-label="Deleted items"
          size="xs"
          data={[
            { value: 'all', label: 'All' },
            { value: 'present', label: 'Present' },
            { value: 'deleted', label: 'Deleted' },
          ]}
          value={state ?? 'all'}
          onChange={(value) =>
            change({ state: value === 'present' || value === 'deleted' ? value : undefined })
          }
        />
        <TextInput
          flex="1 1 180px"
          maw={260}
          aria-label="Search names and senders"
          placeholder="Search names and senders"
          leftSection={<IconSearch size={14} aria-hidden />}
          defaultValue={q ?? ''}
          onChange={(event) => searchFor(event.currentTarget.value.trim())}
        />
      </Group>
      {archive.error !== null && <Failure error={archive.error} />}
      <Loaded query={items} what="Reading items">
        {({ data, nextAfter }) =>
          data.length === 0 ? (
            <Empty
              title={isNarrowed ? 'No such items' : 'No items yet'}
              action={
                isNarrowed ? (
                  <Action
                    variant="default"
                    onClick={() =>
                      change({ user: undefined, kind: undefined, q: undefined, state: undefined })
                    }
                  >
                    Show all items
                  </Action>
                ) : (
                  <Anchor renderRoot={(props) => <Link {...props} to="/cloud-backup" />}>
                    To the configurations
                  </Anchor>
                )
              }
            >
              {isNarrowed
                ? 'Nothing of this configuration matches what you have chosen.'
                : 'The first run of the configuration brings them.'}
            </Empty>
          ) : (
            <>
              <ItemTable
                items={data}
                chosen={chosen}
                onChoose={choose}
                onOpen={(id) => change({ item: id, after })}
              />
              <Group justify="space-between">
                <Checkbox
                  size="xs"
                  label="Choose all on this page"
                  checked={data.every(({ id }) => chosen.has(id))}
                  onChange={(event) => choose(data, event.currentTarget.checked)}
                />
                <Group gap="xs">
                  {after !== undefined && (
                    <Button size="xs" variant="default" onClick={() => change({})}>
                      First page
                    </Button>
                  )}
                  {nextAfter !== null && (
                    <Button size="xs" variant="default" onClick={() => change({ after: nextAfter })}>
                      Next page
                    </Button>
                  )}
                  {after !== undefined && nextAfter === null && <Text size="sm">This is the last page.</Text>}
                </Group>
              </Group>
            </>
          )
        }
      </Loaded>
      <ItemDrawer
        id={item}
        onClose={() => change({ item: undefined, after })}
        onRestore={(one, version) =>
          setRestored({ items: [one], ...(version === undefined ? {} : { version }) })
        }
      />
      {restored !== undefined && (
        <RestoreDialog
          restored={restored}
          orgId={config.orgId}
          connectionId={config.connectionId}
          onClose={() => setRestored(undefined)}
        />
      )}
    </CloudFrame>
  );
}
