import { useDisclosure } from '@mantine/hooks';
import { IconPlus } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { apiQuery, call, useApiChange, type BackupEncryptionKey } from '../../../api/index.ts';
import { useNames } from '../../../directory/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import { useRefusal } from '../../../session/index.ts';
import {
  Action,
  ConfirmAction,
  Empty,
  Loaded,
  PagedTable,
  saveFile,
  StateBadge,
  When,
} from '../../../ui/index.ts';
import { BackupFrame } from '../parts/backup-frame.tsx';
import { NewKeyDialog } from './new-key-dialog.tsx';

const route = getRouteApi('/signed-in/backup/keys');
const REPOSITORIES_AT_ONCE = 100;
const INDENT = 2;

/** The keys without which nobody reads a backup. */
export function KeysPage() {
  const { page } = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId } = scopeQuery(useScope());
  const names = useNames();
  const write = useRefusal('recovery:write');
  const [isOpen, { open, close }] = useDisclosure(false);
  const keys = useQuery({
    ...apiQuery('GET /backup/encryption/keys', { query: { orgId, page: String(page ?? 1) } }),
    placeholderData: keepPreviousData,
  });
  const newKey = (
    <Action refusal={write} leftSection={<IconPlus size={14} aria-hidden />} onClick={open}>
      New key
    </Action>
  );
  return (
    <BackupFrame
      title="Encryption keys"
      description="Backups are encrypted on the device. Keep the recovery kit of each key outside of Muster: with it, stock restic restores them without this server."
      actions={newKey}
    >
      <Loaded query={keys} what="Reading keys">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty title="No encryption keys" action={newKey}>
              Every configuration of backups needs a key.
            </Empty>
          ) : (
            <PagedTable
              label="Encryption keys"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={(next) => void navigate({ search: (previous) => ({ ...previous, page: next }) })}
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
            />
          )
        }
      </Loaded>
      <NewKeyDialog opened={isOpen} onClose={close} />
    </BackupFrame>
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
        size="compact-xs"
        variant="subtle"
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
        size="compact-xs"
        variant="subtle"
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
