import { Code, Drawer, Group, Stack, Text, Title } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { apiQuery, download, type CloudBackupItem } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import {
  Action,
  Failure,
  formatBytes,
  formatTime,
  Loaded,
  PagedTable,
  saveFile,
  StateBadge,
} from '../../../ui/index.ts';
import { FactTable } from '../../backup/index.ts';
import { ITEM_NAMES } from '../parts/kinds.ts';
import { missingContent, nameOf } from './item-table.tsx';
import type { Version } from './restore-dialog.tsx';

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
    <Drawer
      opened={id !== undefined}
      onClose={onClose}
      position="right"
      size="lg"
      title="Cloud item"
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      {id !== undefined && <Item key={id} id={id} onRestore={onRestore} />}
    </Drawer>
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
  const button = { size: 'compact-xs', variant: 'subtle' } as const;
  return (
    <Stack gap={4} component="section" aria-label="Contents">
      <Title order={3} size="h5">
        Contents
      </Title>
      {fetching.error !== null && <Failure error={fetching.error} />}
      <Loaded query={versions} what="Reading its contents">
        {({ data }) =>
          data.length === 0 ? (
            <Text size="sm">{missingContent(item) ?? 'None is stored.'}</Text>
          ) : (
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
                        {...button}
                        refusal={
                          execute ?? (fetching.isPending ? 'A download is being prepared.' : undefined)
                        }
                        onClick={() => fetching.mutate(id)}
                      >
                        Download
                      </Action>
                      <Action
                        {...button}
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
          )
        }
      </Loaded>
    </Stack>
  );
}
