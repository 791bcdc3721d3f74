import { Code, Group, Stack, Text, Title, List, Radio, Select, TextInput, Checkbox } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, download, type CloudBackupItem, newIdempotencyKey, call } from '../../api/index.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  Failure,
  formatBytes,
  formatTime,
  Loaded,
  PagedTable,
  PartNote,
  saveFile,
  StateBadge,
  FormDialog,
  formatCounted,
  DetailsDrawer,
  When,
  FactTable,
  type Column,
} from '../../ui/index.ts';
import { ITEM_NAMES, type Kind, useCloudConnections, KIND_ICONS } from './cloud-frame.tsx';

type OnRestore = (item: CloudBackupItem, version: Version | undefined) => void;

/** One item, and every content that it has had. */
export function ItemDrawer({
  id,
  onClose,
  onRestore,
}: {
  id: string | undefined;
  onClose: () => void;
  onRestore: OnRestore;
}) {
  return (
    <DetailsDrawer opened={id} onClose={onClose} title="Cloud item">
      {(id) => <Item key={id} id={id} onRestore={onRestore} />}
    </DetailsDrawer>
  );
}

function Item({ id, onRestore }: { id: string; onRestore: OnRestore }) {
  const query = useQuery(apiQuery('GET /c2c/items/{id}', { params: { id } }));
  return (
    <Loaded query={query} what="Reading the item">
      {(item) => (
        <Stack gap="sm">
          <Group gap="xs">
            <Title order={2} size="h4" style={{ overflowWrap: 'anywhere' }}>
              {nameOf(item)}
            </Title>
            {item.isDeleted && <StateBadge tone="neutral" label="Deleted" />}
          </Group>
          {item.errorCode !== null && (
            <Text size="sm">
              Its newest content could not be fetched, and the next run tries it again. Code{' '}
              <Code>{item.errorCode}</Code>
            </Text>
          )}
          <FactTable
            label="About the item"
            facts={[
              ['Kind', ITEM_NAMES[item.itemType]],
              ['Of', item.userEmail],
              ['Place', item.parentPath === '' ? undefined : item.parentPath],
              ['From', textOf(item.metadata['from'])],
              ['Address', textOf(item.metadata['address'])],
              ['Dated', item.itemDate === null ? undefined : formatTime(new Date(item.itemDate))],
              ['Found', formatTime(new Date(item.createdAt))],
              ['Deleted', item.deletedAt === null ? undefined : formatTime(new Date(item.deletedAt))],
            ]}
          />
          <Versions item={item} onRestore={onRestore} />
        </Stack>
      )}
    </Loaded>
  );
}

const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined;

function Versions({ item, onRestore }: { item: CloudBackupItem; onRestore: OnRestore }) {
  const execute = useRefusal('recovery:execute');
  const versions = useQuery(apiQuery('GET /c2c/items/{id}/versions', { params: { id: item.id } }));
  const fetching = useMutation({
    mutationFn: async (versionId: string) => {
      const { blob, name } = await download('GET /c2c/items/{id}/content', {
        params: { id: item.id },
        query: { versionId },
      });
      saveFile(name ?? 'item', blob);
    },
  });
  return (
    <Stack gap={4} component="section" aria-label="Contents">
      <Title order={3} size="h5">
        Contents
      </Title>
      {fetching.error !== null && <Failure error={fetching.error} />}
      <Loaded query={versions} what="Reading its contents">
        {({ data, isCut }) =>
          data.length === 0 ? (
            <Text size="sm">{missingContent(item) ?? 'None is stored.'}</Text>
          ) : (
            <>
              <PagedTable
                label="Contents of the item"
                rows={data}
                keyOf={({ id }) => id}
                columns={[
                  {
                    header: 'Fetched',
                    isName: true,
                    cell: ({ capturedAt, isNewest }) => (
                      <Group gap={6}>
                        {formatTime(new Date(capturedAt))}
                        {isNewest && <StateBadge tone="info" label="Newest" />}
                      </Group>
                    ),
                  },
                  {
                    header: 'Size',
                    align: 'right',
                    width: 90,
                    cell: ({ sizeBytes }) => (sizeBytes === null ? '–' : formatBytes(sizeBytes)),
                  },
                  {
                    header: 'Actions',
                    align: 'right',
                    cell: ({ id, capturedAt, isNewest }) => (
                      <Group gap={2} justify="flex-end" wrap="nowrap">
                        <Action
                          inRow
                          refusal={
                            execute ?? (fetching.isPending ? 'A download is being prepared.' : undefined)
                          }
                          onClick={() => fetching.mutate(id)}
                        >
                          Download
                        </Action>
                        <Action
                          inRow
                          refusal={execute}
                          onClick={() => onRestore(item, isNewest ? undefined : { id, capturedAt })}
                        >
                          Restore …
                        </Action>
                      </Group>
                    ),
                  },
                ]}
              />
              <PartNote listed={data.length} isCut={isCut} which="newest" />
            </>
          )
        }
      </Loaded>
    </Stack>
  );
}

interface Version {
  id: string;
  capturedAt: string;
}

export interface Restored {
  items: readonly CloudBackupItem[];
  /** An earlier content of the one item; without it, the newest contents. */
  version?: Version;
}

const FOLDER = 'Restored by Muster';
const NOTES: Readonly<Record<Kind, string>> = {
  mail: 'Messages come back as drafts. One of more than 2.9 MB cannot be restored: download it instead.',
  calendar: 'Events come back without their attendees, who would be invited again.',
  contacts: 'Contacts come into a folder of contacts.',
  onedrive: 'Files keep their folders, below the one that you name.',
};

/** Where items come back to, and then the job that brings them. */
export function RestoreDialog({
  restored: { items, version },
  orgId,
  connectionId,
  onClose,
}: {
  restored: Restored;
  orgId: string;
  /** That of the configuration. */
  connectionId: string;
  onClose: () => void;
}) {
  const navigate = useNavigate();
  const [isOther, setOther] = useState(false);
  const [user, setUser] = useState('');
  const [target, setTarget] = useState(connectionId);
  const [folder, setFolder] = useState(FOLDER);
  // A second click, or a repeated request, begins no second restore.
  const [idempotencyKey] = useState(newIdempotencyKey);
  const connections = useCloudConnections(orgId);
  const offered = (connections.data?.data ?? []).filter((one) => one.orgId === orgId);
  const kinds = [...new Set(items.map(({ itemType }) => itemType))];
  const [only] = items.length === 1 ? items : [];
  const restore = async () => {
    const { id } = await call(
      'POST /c2c/items/restore',
      {
        body: {
          itemIds: items.map((item) => item.id),
          ...(version === undefined ? {} : { versionId: version.id }),
          ...(isOther ? { targetUser: user.trim() } : {}),
          ...(target === connectionId ? {} : { targetConnectionId: target }),
          ...(folder.trim() === '' ? {} : { targetFolder: folder.trim() }),
        },
      },
      { idempotencyKey },
    );
    void navigate({ to: '/cloud-backup/jobs', search: { job: id } });
  };
  return (
    <FormDialog
      title={
        only === undefined ? `Restore ${formatCounted(items.length, 'item')}` : `Restore “${nameOf(only)}”`
      }
      size="lg"
      opened
      onClose={onClose}
      submitLabel="Restore"
      submit={restore}
    >
      {(faults) => (
        <>
          <Text size="sm">
            {version === undefined
              ? 'The newest contents come back, also of items that were deleted.'
              : `The content of ${formatTime(new Date(version.capturedAt))} comes back.`}{' '}
            Nothing that is there is overwritten.
          </Text>
          <Radio.Group
            label="To whom"
            value={isOther ? 'other' : 'own'}
            onChange={(value) => setOther(value === 'other')}
          >
            <Stack gap="xs" mt="xs">
              <Radio
                value="own"
                label={only === undefined ? 'The user of each item' : only.userEmail}
                description="The same mailbox or drive."
              />
              <Radio value="other" label="Another user" description="Another mailbox or drive." />
            </Stack>
          </Radio.Group>
          {isOther && (
            <TextInput
              label="Address of the user"
              type="email"
              required
              placeholder="grace@example.com"
              value={user}
              onChange={(event) => setUser(event.currentTarget.value)}
              error={faults['targetUser']}
            />
          )}
          {offered.length > 1 && (
            <Select
              label="Directory"
              description="The connection by which the items come back."
              allowDeselect={false}
              data={offered.map(({ id, displayName }) => ({ value: id, label: displayName }))}
              value={target}
              onChange={(value) => setTarget(value ?? connectionId)}
              error={faults['targetConnectionId']}
            />
          )}
          <TextInput
            label="Folder"
            description="It is made where it is missing."
            required
            value={folder}
            onChange={(event) => setFolder(event.currentTarget.value)}
            error={faults['targetFolder']}
          />
          <List size="sm" c="dimmed">
            {kinds.map((kind) => (
              <List.Item key={kind}>{NOTES[kind]}</List.Item>
            ))}
          </List>
        </>
      )}
    </FormDialog>
  );
}

const nameOf = ({ subjectOrName, itemType }: CloudBackupItem): string =>
  subjectOrName === '' ? `${ITEM_NAMES[itemType]} without a name` : subjectOrName;

/** The sender of a message, or the organizer of an event. */
function senderOf({ itemType, metadata }: CloudBackupItem): string | undefined {
  const [name, address] =
    itemType === 'mail'
      ? [metadata['fromName'], metadata['from']]
      : [metadata['organizerName'], metadata['organizer']];
  return [name, address].find((one): one is string => typeof one === 'string' && one !== '');
}

/** Why an item can be neither downloaded nor restored. */
const missingContent = ({ sizeBytes }: CloudBackupItem): string | undefined =>
  sizeBytes === null ? 'Its content could not be fetched yet. The next run tries it again.' : undefined;

/** The columns of a list of items, of which some are chosen to do something with them. */
export const itemColumns = ({
  chosen,
  onChoose,
  onOpen,
}: {
  chosen: ReadonlyMap<string, CloudBackupItem>;
  onChoose: (items: readonly CloudBackupItem[], isChosen: boolean) => void;
  onOpen: (id: string) => void;
}): Column<CloudBackupItem>[] => [
  {
    header: 'Choose',
    width: 70,
    cell: (item) => (
      <Checkbox
        size="xs"
        aria-label={`Choose “${nameOf(item)}”`}
        checked={chosen.has(item.id)}
        onChange={(event) => onChoose([item], event.currentTarget.checked)}
      />
    ),
  },
  { header: 'Name', isName: true, cell: (item) => <ItemName item={item} /> },
  { header: 'User', cell: ({ userEmail }) => userEmail },
  {
    header: 'Size',
    align: 'right',
    width: 90,
    cell: ({ sizeBytes }) => (sizeBytes === null ? '–' : formatBytes(sizeBytes)),
  },
  { header: 'Dated', width: 110, cell: ({ itemDate }) => <When at={itemDate} never="–" /> },
  {
    header: 'Details',
    width: 80,
    cell: ({ id }) => (
      <Action inRow onClick={() => onOpen(id)}>
        Details
      </Action>
    ),
  },
];

function ItemName({ item }: { item: CloudBackupItem }) {
  const { itemType, parentPath, isDeleted, errorCode } = item;
  const Shown = KIND_ICONS[itemType];
  const sender = senderOf(item);
  return (
    <Group gap={8} wrap="nowrap" align="flex-start">
      <Shown size={16} role="img" aria-label={ITEM_NAMES[itemType]} style={{ flexShrink: 0, marginTop: 2 }} />
      <Group gap="2px 8px">
        <span style={{ overflowWrap: 'anywhere' }}>{nameOf(item)}</span>
        {sender !== undefined && (
          <Text size="xs" style={{ overflowWrap: 'anywhere' }}>
            from {sender}
          </Text>
        )}
        {parentPath !== '' && (
          <Text size="xs" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
            {parentPath}
          </Text>
        )}
        {isDeleted && <StateBadge tone="neutral" label="Deleted" title="It was deleted at Microsoft." />}
        {errorCode !== null && (
          <StateBadge tone="warning" label="Not fetched" title={`The next run tries again: ${errorCode}`} />
        )}
      </Group>
    </Group>
  );
}
