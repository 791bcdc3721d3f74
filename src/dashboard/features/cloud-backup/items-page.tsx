import { Button, Checkbox, Select } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { IconDownload, IconRestore } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { download, type CloudBackupConfig, type CloudBackupItem, useList } from '../../api/index.ts';
import { choicesOf } from '../../directory.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  Empty,
  Failure,
  formatCount,
  Loaded,
  saveFile,
  TextLink,
  ListPage,
  useAddress,
} from '../../ui/index.ts';
import { CloudFrame, KIND_NAMES, KINDS, useCloudConfigs } from './cloud-frame.tsx';
import { ItemDrawer, itemColumns, type Restored, RestoreDialog } from './item-drawer.tsx';

const route = getRouteApi('/signed-in/cloud-backup/items');
const LIMIT = '50';
/** The most items of one restore or one archive. */
const CHOSEN_MAX = 1000;

/** The items in cloud backups: to find, to look at, to download, and to restore. */
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
              action={<TextLink to="/cloud-backup">To the configurations</TextLink>}
            >
              Messages, events, contacts and files appear here after the first run of a configuration.
            </Empty>
          </CloudFrame>
        ) : (
          // A selection belongs to one configuration.
          <Items key={config.id} config={config} configs={data} />
        );
      }}
    </Loaded>
  );
}

function Items({ config, configs }: { config: CloudBackupConfig; configs: readonly CloudBackupConfig[] }) {
  const address = useAddress(route.useSearch());
  const { user, kind, q, state, after, item } = address.search;
  const [chosen, setChosen] = useState<ReadonlyMap<string, CloudBackupItem>>(new Map());
  const [restored, setRestored] = useState<Restored>();
  const execute = useRefusal('recovery:execute');
  const items = useList('GET /c2c/items', {
    query: {
      configId: config.id,
      userEmail: user,
      itemType: kind,
      search: q,
      isDeleted: state === undefined ? undefined : String(state === 'deleted'),
      after,
      limit: LIMIT,
    },
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
  return (
    <ListPage
      frame={CloudFrame}
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
            icon={IconDownload}
            onClick={() => archive.mutate()}
          >
            Download
          </Action>
          <Action
            refusal={execute ?? amount}
            icon={IconRestore}
            onClick={() => setRestored({ items: [...chosen.values()] })}
          >
            Restore …
          </Action>
        </>
      }
      notice={archive.error !== null && <Failure error={archive.error} />}
      query={items}
      noun="items"
      label="Cloud items"
      keyOf={({ id }) => id}
      address={address}
      cursor={{ name: 'after', next: items.data?.nextAfter }}
      facets={[
        {
          kind: 'choice',
          name: 'config',
          label: 'Configuration',
          any: 'Configuration',
          options: choicesOf(configs),
          first: config.id,
          resets: { user: undefined, item: undefined },
          width: 200,
          isSearchable: true,
        },
        {
          kind: 'own',
          name: 'user',
          control: (
            <UserSelect
              configId={config.id}
              value={user}
              onChange={(next) => address.set({ user: next, after: undefined })}
            />
          ),
        },
        {
          kind: 'choice',
          name: 'kind',
          label: 'Kind',
          any: 'Any kind',
          options: KINDS.map((value) => ({ value, label: KIND_NAMES[value] })),
          width: 120,
        },
        {
          kind: 'choice',
          name: 'state',
          label: 'Deleted items',
          any: 'Deleted or not',
          options: [
            { value: 'present', label: 'Not deleted' },
            { value: 'deleted', label: 'Deleted' },
          ],
          width: 150,
        },
        {
          kind: 'text',
          name: 'q',
          label: 'Search names and senders',
          placeholder: 'Search names and senders',
        },
      ]}
      foot={(rows) => (
        <Checkbox
          size="xs"
          label="Choose all on this page"
          checked={rows.every(({ id }) => chosen.has(id))}
          onChange={(event) => choose(rows, event.currentTarget.checked)}
        />
      )}
      empty={{
        title: 'No items yet',
        text: 'The first run of the configuration brings them.',
        action: <TextLink to="/cloud-backup">To the configurations</TextLink>,
      }}
      noneFound={{ text: 'Nothing of this configuration matches what you have chosen.' }}
      columns={itemColumns({ chosen, onChoose: choose, onOpen: (id) => address.set({ item: id }) })}
    >
      <ItemDrawer
        id={item}
        onClose={() => address.set({ item: undefined })}
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
    </ListPage>
  );
}

/** The users of whom a configuration has items. There may be thousands, so the server searches. */
function UserSelect({
  configId,
  value,
  onChange,
}: {
  configId: string;
  value: string | undefined;
  onChange: (email: string | undefined) => void;
}) {
  const [typed, setTyped] = useState('');
  const [search] = useDebouncedValue(typed === value ? '' : typed, 300);
  const users = useList('GET /c2c/configs/{id}/users', {
    params: { id: configId },
    query: { search: search === '' ? undefined : search },
  });
  const known = (users.data?.data ?? []).map(({ userEmail }) => userEmail);
  return (
    <Select
      aria-label="User"
      placeholder="Any user"
      clearable
      searchable
      w={200}
      nothingFoundMessage={users.error?.message ?? 'No such user'}
      data={value === undefined || known.includes(value) ? known : [value, ...known]}
      value={value ?? null}
      onChange={(next) => onChange(next ?? undefined)}
      onSearchChange={setTyped}
    />
  );
}
