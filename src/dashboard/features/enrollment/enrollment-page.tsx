import { Alert, Button, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconKey, IconPlus } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, type EnrollmentKey } from '../../api/index.ts';
import { useNames, useOrganizations } from '../../directory/index.ts';
import { scopeQuery, useScope } from '../../routing/index.ts';
import { useRefusal } from '../../session/index.ts';
import {
  Action,
  ConfirmAction,
  Empty,
  Loaded,
  Page,
  PagedTable,
  Panel,
  StateBadge,
  useNow,
  When,
} from '../../ui/index.ts';
import { InstallLines } from './install-lines.tsx';
import { NewKeyDialog } from './new-key-dialog.tsx';
import { WaitingRoom } from './waiting-room.tsx';

const route = getRouteApi('/signed-in/enrollment');

/** From a key to a managed machine, on one page. */
export function EnrollmentPage() {
  const { page } = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId } = scopeQuery(useScope());
  const [isOpen, { open, close }] = useDisclosure(false);
  const [made, setMade] = useState<string>();
  const hasOrganization = useOrganizations().length > 0;
  const mayWrite = useRefusal('agents:write');
  const refusal =
    mayWrite ??
    (hasOrganization ? undefined : 'A key belongs to an organization. Create an organization first.');
  const keys = useQuery({
    ...apiQuery('GET /enrollment-keys', { query: { page: String(page ?? 1), orgId } }),
    placeholderData: keepPreviousData,
  });
  const newKey = (
    <Action refusal={refusal} leftSection={<IconPlus size={14} aria-hidden />} onClick={open}>
      New key
    </Action>
  );
  return (
    <Page
      title="Enrollment"
      description="A key lets a machine join one organization. One line installs the agent with it."
      actions={newKey}
    >
      {made !== undefined && (
        <Panel title="Install the agent" label="The new key">
          <InstallLines enrollmentKey={made} />
          <Alert icon={<IconKey aria-hidden />} color="orange">
            The key is shown only now. Anyone who has it can add machines to the organization.
          </Alert>
        </Panel>
      )}
      <WaitingRoom />
      <Loaded query={keys} what="Reading keys">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty
              title="No enrollment keys"
              action={
                hasOrganization ? (
                  newKey
                ) : (
                  <Button renderRoot={(props) => <Link {...props} to="/organizations" />}>
                    Create an organization first
                  </Button>
                )
              }
            >
              Create a key, run the line that it gives on a machine, and watch it arrive.
            </Empty>
          ) : (
            <KeyTable
              keys={data}
              page={pagination}
              onPage={(next) => void navigate({ search: (previous) => ({ ...previous, page: next }) })}
              refusal={refusal}
              onRotated={setMade}
            />
          )
        }
      </Loaded>
      <NewKeyDialog opened={isOpen} onClose={close} onMade={setMade} />
    </Page>
  );
}

function KeyTable({
  keys,
  page,
  onPage,
  refusal,
  onRotated,
}: {
  keys: readonly EnrollmentKey[];
  page: { page: number; limit: number; total: number };
  onPage: (page: number) => void;
  refusal: string | undefined;
  onRotated: (key: string) => void;
}) {
  const names = useNames();
  const revoke = useApiChange('DELETE /enrollment-keys/{id}', { refreshes: ['GET /enrollment-keys'] });
  const rotate = useApiChange('POST /enrollment-keys/{id}/rotate', { refreshes: ['GET /enrollment-keys'] });
  return (
    <PagedTable
      label="Enrollment keys"
      rows={keys}
      keyOf={({ id }) => id}
      page={page}
      onPage={onPage}
      columns={[
        { header: 'Name', isName: true, cell: ({ name }) => name },
        { header: 'Prefix', cell: ({ keyPrefix }) => keyPrefix },
        { header: 'Organization', cell: ({ orgId }) => names.organization(orgId) },
        { header: 'Site', cell: ({ siteId }) => (siteId === null ? 'First site' : names.site(siteId)) },
        {
          header: 'Used',
          align: 'right',
          cell: ({ usageCount, maxUsage }) =>
            maxUsage === null ? usageCount : `${usageCount} of ${maxUsage}`,
        },
        { header: 'State', cell: (key) => <KeyState enrollmentKey={key} /> },
        {
          header: 'Actions',
          align: 'right',
          cell: ({ id, name, revokedAt }) =>
            revokedAt === null && (
              <>
                <ConfirmAction
                  size="compact-xs"
                  variant="subtle"
                  refusal={refusal}
                  title={`Replace “${name}”`}
                  question="A new key takes the place of this one, which works no longer. Devices that are enrolled stay."
                  confirm="Replace"
                  color="blue"
                  run={async () => onRotated((await rotate.mutateAsync({ params: { id } })).key)}
                >
                  Replace
                </ConfirmAction>
                <ConfirmAction
                  size="compact-xs"
                  variant="subtle"
                  refusal={refusal}
                  title={`Revoke “${name}”`}
                  question="Nobody can enroll a device with this key any more. Devices that are enrolled stay."
                  confirm="Revoke"
                  run={() => revoke.mutateAsync({ params: { id } })}
                >
                  Revoke
                </ConfirmAction>
              </>
            ),
        },
      ]}
    />
  );
}

function KeyState({
  enrollmentKey: { revokedAt, expiresAt, maxUsage, usageCount },
}: {
  enrollmentKey: EnrollmentKey;
}) {
  const now = useNow();
  if (revokedAt !== null) return <StateBadge tone="neutral" label="Revoked" />;
  if (expiresAt !== null && Date.parse(expiresAt) < now) return <StateBadge tone="neutral" label="Expired" />;
  if (maxUsage !== null && usageCount >= maxUsage) return <StateBadge tone="neutral" label="Used up" />;
  return (
    <>
      <StateBadge tone="good" label="Valid" />
      {expiresAt !== null && (
        <Text size="xs" c="dimmed">
          ends <When at={expiresAt} />
        </Text>
      )}
    </>
  );
}
