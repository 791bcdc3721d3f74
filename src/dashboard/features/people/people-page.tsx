import { Alert, Button, Group, Select, Stack, Text, TextInput } from '@mantine/core';
import { useDebouncedCallback, useDisclosure } from '@mantine/hooks';
import { IconMail, IconSearch, IconUserPlus } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, type User } from '../../api/index.ts';
import { useNames } from '../../directory/index.ts';
import { scopeQuery, useScope } from '../../routing/index.ts';
import { useMe, useRefusal, type Me } from '../../session/index.ts';
import {
  Action,
  ConfirmAction,
  CopyText,
  Empty,
  formatWord,
  Loaded,
  Page,
  PagedTable,
  StateBadge,
  When,
  type Tone,
} from '../../ui/index.ts';
import { ChangeUserDialog } from './change-user-dialog.tsx';
import { InviteDialog } from './invite-dialog.tsx';

const route = getRouteApi('/signed-in/people');
const STATUSES = ['active', 'invited', 'disabled'] as const;
const TONES: Record<User['status'], Tone> = { active: 'good', invited: 'info', disabled: 'neutral' };

/** Who may sign in, and with which role. */
export function PeoplePage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId } = scopeQuery(useScope());
  const [isInviting, inviting] = useDisclosure(false);
  const [invited, setInvited] = useState<{ email: string; url: string }>();
  const refusal = useRefusal('users:invite');
  const change = (next: Partial<typeof search>) =>
    void navigate({ search: (previous) => ({ ...previous, page: undefined, ...next }), replace: true });
  const searchFor = useDebouncedCallback((q: string) => change({ q: q === '' ? undefined : q }), 300);
  const people = useQuery({
    ...apiQuery('GET /users', {
      query: { search: search.q, status: search.status, page: String(search.page ?? 1), orgId },
    }),
    placeholderData: keepPreviousData,
  });
  return (
    <Page
      title="People"
      actions={
        <>
          <Button variant="default" renderRoot={(props) => <Link {...props} to="/people/roles" />}>
            Roles
          </Button>
          <Action
            refusal={refusal}
            leftSection={<IconUserPlus size={14} aria-hidden />}
            onClick={inviting.open}
          >
            Invite
          </Action>
        </>
      }
    >
      {invited !== undefined && (
        <Alert
          color="teal"
          icon={<IconMail aria-hidden />}
          title={`${invited.email} is invited`}
          withCloseButton
          closeButtonLabel="Close"
          onClose={() => setInvited(undefined)}
        >
          <Stack gap="xs">
            <Text size="sm">The mail has this link. Where mail is not set up, pass it on yourself.</Text>
            <CopyText label="Link of the invitation" text={invited.url} />
          </Stack>
        </Alert>
      )}
      <Group gap="sm">
        <TextInput
          w={240}
          placeholder="Search names and addresses"
          aria-label="Search people"
          leftSection={<IconSearch size={14} aria-hidden />}
          defaultValue={search.q ?? ''}
          onChange={(event) => searchFor(event.currentTarget.value)}
        />
        <Select
          w={140}
          aria-label="Status"
          placeholder="Any status"
          clearable
          data={STATUSES.map((value) => ({ value, label: formatWord(value) }))}
          value={search.status ?? null}
          onChange={(value) => change({ status: STATUSES.find((known) => known === value) })}
        />
      </Group>
      <Loaded query={people} what="Reading people">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty title="Nobody matches">Change the search, or invite somebody.</Empty>
          ) : (
            <PeopleTable
              people={data}
              page={pagination}
              onPage={(page) => change({ page })}
              onInvited={setInvited}
            />
          )
        }
      </Loaded>
      <InviteDialog opened={isInviting} onClose={inviting.close} onInvited={setInvited} />
    </Page>
  );
}

function PeopleTable({
  people,
  page,
  onPage,
  onInvited,
}: {
  people: readonly User[];
  page: { page: number; limit: number; total: number };
  onPage: (page: number) => void;
  onInvited: (invitation: { email: string; url: string }) => void;
}) {
  const me = useMe();
  const names = useNames();
  const mayWrite = useRefusal('users:write');
  const mayDelete = useRefusal('users:delete');
  const mayInvite = useRefusal('users:invite');
  const [changed, setChanged] = useState<User>();
  const remove = useApiChange('DELETE /users/{id}', { refreshes: ['GET /users'] });
  const resend = useApiChange('POST /users/resend-invite', { refreshes: ['GET /users'] });
  return (
    <>
      <PagedTable
        label="People"
        rows={people}
        keyOf={({ id }) => id}
        page={page}
        onPage={onPage}
        columns={[
          {
            header: 'Name',
            isName: true,
            cell: ({ name, email }) => (
              <>
                {name}
                <Text size="xs" c="dimmed">
                  {email}
                </Text>
              </>
            ),
          },
          {
            header: 'Status',
            cell: ({ status }) => <StateBadge tone={TONES[status]} label={formatWord(status)} />,
          },
          { header: 'Role', cell: ({ roleName }) => roleName },
          { header: 'Access', cell: (user) => accessOf(user, names, me.scope) },
          {
            header: 'Two-factor authentication',
            cell: ({ mfaEnabled }) => (
              <StateBadge tone={mfaEnabled ? 'good' : 'warning'} label={mfaEnabled ? 'On' : 'Off'} />
            ),
          },
          { header: 'Last sign-in', cell: ({ lastLoginAt }) => <When at={lastLoginAt} /> },
          {
            header: 'Actions',
            align: 'right',
            cell: (user) => {
              const isSelf = user.id === me.user.id ? 'Change your own account on your profile.' : undefined;
              return (
                <>
                  {user.status === 'invited' && (
                    <ConfirmAction
                      size="compact-xs"
                      variant="subtle"
                      color="blue"
                      refusal={mayInvite}
                      title={`Invite ${user.name} again`}
                      question="A new link is mailed; the one before works no longer."
                      confirm="Send"
                      run={async () => {
                        const { inviteUrl } = await resend.mutateAsync({ body: { userId: user.id } });
                        onInvited({ email: user.email, url: inviteUrl });
                      }}
                    >
                      Invite again
                    </ConfirmAction>
                  )}
                  <Action
                    size="compact-xs"
                    variant="subtle"
                    refusal={isSelf ?? mayWrite}
                    onClick={() => setChanged(user)}
                  >
                    Change
                  </Action>
                  <ConfirmAction
                    size="compact-xs"
                    variant="subtle"
                    refusal={isSelf ?? mayDelete}
                    title={`Remove ${user.name}`}
                    question="Their sessions and API keys end at once. What they did stays in the audit trail."
                    confirm="Remove"
                    run={() => remove.mutateAsync({ params: { id: user.id } })}
                  >
                    Remove
                  </ConfirmAction>
                </>
              );
            },
          },
        ]}
      />
      {changed !== undefined && (
        <ChangeUserDialog key={changed.id} user={changed} onClose={() => setChanged(undefined)} />
      )}
    </>
  );
}

function accessOf(user: User, names: ReturnType<typeof useNames>, viewer: Me['scope']): string {
  if (user.orgId !== null) return names.organization(user.orgId);
  if (user.scope === 'system') return 'Everything';
  const access = organizationsOf(user, names);
  // A system administrator sees people of several providers.
  return viewer === 'system' && user.partnerId !== null
    ? `${names.provider(user.partnerId)} · ${access}`
    : access;
}

function organizationsOf({ orgAccess, orgIds }: User, names: ReturnType<typeof useNames>): string {
  if (orgAccess === 'all') return 'All organizations';
  if (orgAccess !== 'selected') return 'No organization';
  return orgIds.length === 1 ? names.organization(orgIds[0] ?? '') : `${orgIds.length} organizations`;
}
