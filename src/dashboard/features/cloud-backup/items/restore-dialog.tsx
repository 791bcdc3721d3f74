import { List, Radio, Select, Stack, Text, TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { newIdempotencyKey, call, type CloudBackupItem } from '../../../api/index.ts';
import { FormDialog, formatCounted, formatTime } from '../../../ui/index.ts';
import { useCloudConnections } from '../parts/lists.ts';
import type { Kind } from '../parts/kinds.ts';
import { nameOf } from './item-table.tsx';

export interface Version {
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
