import { Checkbox, Group, Text } from '@mantine/core';
import type { CloudBackupItem } from '../../../api/index.ts';
import { Action, formatBytes, PagedTable, StateBadge, When } from '../../../ui/index.ts';
import { ITEM_NAMES, KIND_ICONS } from '../parts/kinds.ts';

export const nameOf = ({ subjectOrName, itemType }: CloudBackupItem): string =>
  subjectOrName === '' ? `${ITEM_NAMES[itemType]} without a name` : subjectOrName;

/** Who has sent a message, or organizes an event. */
function senderOf({ itemType, metadata }: CloudBackupItem): string | undefined {
  const [name, address] =
    itemType === 'mail'
      ? [metadata['fromName'], metadata['from']]
      : [metadata['organizerName'], metadata['organizer']];
  return [name, address].find((one): one is string => typeof one === 'string' && one !== '');
}

/** Why an item can be neither downloaded nor restored. */
export const missingContent = ({ sizeBytes }: CloudBackupItem): string | undefined =>
  sizeBytes === null ? 'Its content could not be fetched yet. The next run tries it again.' : undefined;

export function ItemTable({
  items,
  chosen,
  onChoose,
  onOpen,
}: {
  items: readonly CloudBackupItem[];
  chosen: ReadonlyMap<string, CloudBackupItem>;
  onChoose: (items: readonly CloudBackupItem[], isChosen: boolean) => void;
  onOpen: (id: string) => void;
}) {
  return (
    <PagedTable
      label="Cloud items"
      rows={items}
      keyOf={({ id }) => id}
      columns={[
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
            <Action size="compact-xs" variant="subtle" onClick={() => onOpen(id)}>
              Details
            </Action>
          ),
        },
      ]}
    />
  );
}

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
