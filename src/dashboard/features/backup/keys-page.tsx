import { useDisclosure } from '@mantine/hooks';
import { IconPlus } from '@tabler/icons-react';
import { getRouteApi } from '@tanstack/react-router';
import { call, useApiChange, type BackupEncryptionKey, useList } from '../../api/index.ts';
import { useNames, useFirstOrganization } from '../../directory.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  ConfirmAction,
  saveFile,
  StateBadge,
  When,
  FormDialog,
  useForm,
  ListPage,
  useAddress,
} from '../../ui/index.ts';
import { BackupFrame } from './backup-frame.tsx';
import { OrganizationSelect } from './selects.tsx';

const route = getRouteApi('/signed-in/backup/keys');
const REPOSITORIES_AT_ONCE = 100;
const INDENT = 2;

/** The encryption keys of backups. */
export function KeysPage() {
  const address = useAddress(route.useSearch());
  const { orgId } = scopeQuery(useScope());
  const names = useNames();
  const write = useRefusal('recovery:write');
  const [isOpen, { open, close }] = useDisclosure(false);
  const keys = useList('GET /backup/encryption/keys', {
    query: { orgId, page: String(address.search.page ?? 1) },
  });
  const newKey = (
    <Action refusal={write} icon={IconPlus} onClick={open}>
      New key
    </Action>
  );
  return (
    <ListPage
      frame={BackupFrame}
      title="Encryption keys"
      description="Backups are encrypted on the device. Keep the recovery kit of each key outside of Muster: with it, stock restic restores them without this server."
      actions={newKey}
      query={keys}
      noun="encryption keys"
      keyOf={({ id }) => id}
      address={address}
      empty={{
        title: 'No encryption keys',
        text: 'Every configuration of backups needs a key.',
        action: newKey,
      }}
      columns={[
        { header: 'Name', isName: true, cell: ({ name }) => name },
        { header: 'Organization', cell: (key) => names.organization(key.orgId) },
        { header: 'Version', align: 'right', width: 80, cell: ({ version }) => version },
        {
          header: 'State',
          width: 120,
          cell: ({ status }) =>
            status === 'active' ? (
              <StateBadge tone="good" label="Active" />
            ) : (
              <StateBadge
                tone="busy"
                label="Rotating"
                title="Not every repository has the newest version yet."
              />
            ),
        },
        { header: 'Fingerprint', cell: ({ fingerprint }) => fingerprint.slice(0, 16) },
        { header: 'Created', width: 110, cell: ({ createdAt }) => <When at={createdAt} /> },
        { header: 'Rotated', width: 110, cell: ({ rotatedAt }) => <When at={rotatedAt} /> },
        { header: 'Actions', align: 'right', cell: (key) => <KeyActions encryptionKey={key} /> },
      ]}
    >
      {isOpen && <NewKeyDialog onClose={close} />}
    </ListPage>
  );
}

function KeyActions({ encryptionKey: { id, name, status } }: { encryptionKey: BackupEncryptionKey }) {
  const write = useRefusal('recovery:write');
  const exporting = useRefusal('recovery:export');
  const rotate = useApiChange('POST /backup/encryption/keys/{id}/rotate', {
    refreshes: ['GET /backup/encryption/keys'],
  });
  return (
    <>
      <ConfirmAction
        inRow
        color="blue"
        refusal={exporting}
        title={`Recovery kit of “${name}”`}
        question="The file has the passwords of all repositories of the key. Anyone who has it and reaches the data can read the backups. The download is written to the audit trail."
        confirm="Download the kit"
        run={() => saveKit(id, name)}
      >
        Recovery kit
      </ConfirmAction>
      <ConfirmAction
        inRow
        color="blue"
        refusal={write ?? (status === 'rotating' ? 'It is being rotated.' : undefined)}
        title={`Rotate “${name}”`}
        question="Repositories get a new password with their next work. Take a new recovery kit afterwards."
        confirm="Rotate"
        run={() => rotate.mutateAsync({ params: { id } })}
      >
        Rotate
      </ConfirmAction>
    </>
  );
}

/** All repositories of the key in one file, page by page from the server. */
async function saveKit(id: string, name: string): Promise<void> {
  const limit = String(REPOSITORIES_AT_ONCE);
  const read = (page: number) =>
    call('GET /backup/encryption/keys/{id}/recovery-kit', {
      params: { id },
      query: { page: String(page), limit },
    });
  const { pagination, ...kit } = await read(1);
  const repositories = [...kit.repositories];
  for (let page = 2; repositories.length < pagination.total; page++) {
    const next = (await read(page)).repositories;
    if (next.length === 0) break;
    repositories.push(...next);
  }
  saveFile(
    `recovery-kit ${name.replaceAll(/[^\w -]+/g, '_')}.json`,
    JSON.stringify({ ...kit, repositories }, undefined, INDENT),
    'application/json',
  );
}

function NewKeyDialog({ onClose }: { onClose: () => void }) {
  const first = useFirstOrganization();
  const form = useForm({ orgId: first, name: '' });
  const { orgId = first ?? '', name } = form.values;
  const create = useApiChange('POST /backup/encryption/keys', { refreshes: ['GET /backup/encryption/keys'] });
  return (
    <FormDialog
      title="New encryption key"
      onClose={onClose}
      submitLabel="Create key"
      submit={() => create.mutateAsync({ body: { orgId, name } })}
      form={form}
      fields={[
        { name: 'orgId', control: (field) => <OrganizationSelect {...field} value={orgId} /> },
        {
          name: 'name',
          label: 'Name',
          description: 'The server makes the key and never shows it. The recovery kit has what restic needs.',
          required: true,
        },
      ]}
    />
  );
}
