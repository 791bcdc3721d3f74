import { Stack, Text } from '@mantine/core';
import { IconMail, IconUserPlus } from '@tabler/icons-react';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { useApiChange, useList, type User, apiQuery, type Role } from '../../api/index.ts';
import { useNames, choicesOf, useOrganizations, useProviders } from '../../directory.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useMe, useRefusal, type Me } from '../../session.ts';
import {
  Action,
  ButtonLink,
  ConfirmAction,
  CopyText,
  Done,
  formatWord,
  ListPage,
  StateBadge,
  TwoLines,
  useAddress,
  When,
  type Tone,
  FormDialog,
  useForm,
} from '../../ui/index.ts';
import { useQuery } from '@tanstack/react-query';

const route = getRouteApi('/signed-in/people');
const TONES: Record<User['status'], Tone> = { active: 'good', invited: 'info', disabled: 'neutral' };

/** The people who may sign in, with their roles. */
export function PeoplePage() {
  const address = useAddress(route.useSearch());
  const { q, status, page = 1, dialog } = address.search;
  const { orgId } = scopeQuery(useScope());
  const me = useMe();
  const names = useNames();
  const [invited, setInvited] = useState<{ email: string; url: string }>();
  const [changed, setChanged] = useState<User>();
  const mayInvite = useRefusal('users:invite');
  const people = useList('GET /users', { query: { search: q, status, page: String(page), orgId } });
  return (
    <ListPage
      title="People"
      actions={
        <>
          <ButtonLink variant="default" to="/people/roles">
            Roles
          </ButtonLink>
          <Action refusal={mayInvite} icon={IconUserPlus} onClick={() => address.put({ dialog: 'new' })}>
            Invite
          </Action>
        </>
      }
      notice={
        invited !== undefined && (
          <Done title={`${invited.email} is invited`} icon={IconMail} onClose={() => setInvited(undefined)}>
            <Stack gap="xs">
              <Text size="sm">The mail has this link. Where mail is not set up, pass it on yourself.</Text>
              <CopyText label="Link of the invitation" text={invited.url} />
            </Stack>
          </Done>
        )
      }
      query={people}
      noun="people"
      keyOf={({ id }) => id}
      address={address}
      facets={[
        { kind: 'text', name: 'q', label: 'Search people', placeholder: 'Search names and addresses' },
        {
          kind: 'choice',
          name: 'status',
          label: 'Status',
          any: 'Any status',
          options: ['active', 'invited', 'disabled'],
          width: 140,
        },
      ]}
      empty={{ title: 'No people here', text: 'Invite the first person.' }}
      noneFound={{ title: 'No people match', text: 'Change the search, or invite a person.' }}
      columns={[
        {
          header: 'Name',
          isName: true,
          cell: ({ name, email }) => <TwoLines below={email}>{name}</TwoLines>,
        },
        {
          header: 'Status',
          cell: (user) => <StateBadge tone={TONES[user.status]} label={formatWord(user.status)} />,
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
          cell: (user) => (
            <PersonActions user={user} onChange={() => setChanged(user)} onInvited={setInvited} />
          ),
        },
      ]}
    >
      {dialog === 'new' && mayInvite === undefined && (
        <InviteDialog onClose={() => address.put({ dialog: undefined })} onInvited={setInvited} />
      )}
      {changed !== undefined && <ChangeUserDialog user={changed} onClose={() => setChanged(undefined)} />}
    </ListPage>
  );
}

function PersonActions({
  user: { id, name, email, status, mfaEnabled },
  onChange,
  onInvited,
}: {
  user: User;
  onChange: () => void;
  onInvited: (invitation: { email: string; url: string }) => void;
}) {
  const me = useMe();
  const mayWrite = useRefusal('users:write');
  const mayDelete = useRefusal('users:delete');
  const mayInvite = useRefusal('users:invite');
  const mayReadAudit = useRefusal('audit:read');
  const remove = useApiChange('DELETE /users/{id}', { refreshes: ['GET /users'] });
  const resend = useApiChange('POST /users/resend-invite', { refreshes: ['GET /users'] });
  const resetFactors = useApiChange('POST /users/{id}/mfa/reset', { refreshes: ['GET /users'] });
  const isSelf = id === me.user.id ? 'Change your own account on your profile.' : undefined;
  return (
    <>
      {mayReadAudit === undefined && (
        <ButtonLink
          to="/audit"
          search={{ user: email }}
          size="compact-xs"
          variant="subtle"
          aria-label={`What they did: ${name}`}
        >
          What they did
        </ButtonLink>
      )}
      {status === 'invited' && (
        <ConfirmAction
          inRow
          color="blue"
          refusal={mayInvite}
          title={`Invite ${name} again`}
          question="A new link is mailed; the one before works no longer."
          confirm="Send"
          run={async () => {
            const { inviteUrl } = await resend.mutateAsync({ body: { userId: id } });
            onInvited({ email, url: inviteUrl });
          }}
        >
          Invite again
        </ConfirmAction>
      )}
      <Action inRow refusal={isSelf ?? mayWrite} onClick={onChange}>
        Change
      </Action>
      {mfaEnabled && (
        <ConfirmAction
          inRow
          refusal={isSelf ?? mayWrite}
          title={`Remove the second factors of ${name}`}
          question="Do this only if you are sure who asks for it. Authenticator app, recovery codes and passkeys are removed, and their sessions end. The next sign-in asks for the password alone. They are told by mail."
          confirm="Remove the second factors"
          run={() => resetFactors.mutateAsync({ params: { id } })}
        >
          Reset second factor
        </ConfirmAction>
      )}
      <ConfirmAction
        inRow
        refusal={isSelf ?? mayDelete}
        title={`Remove ${name}`}
        question="Their sessions and API keys end at once. What they did stays in the audit trail."
        confirm="Remove"
        run={() => remove.mutateAsync({ params: { id } })}
      >
        Remove
      </ConfirmAction>
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

const ACCESS = [
  { value: 'all', label: 'All organizations' },
  { value: 'selected', label: 'Chosen organizations' },
  { value: 'none', label: 'No organization' },
] as const;
const SCOPE_WORDS = { organization: 'customer', partner: 'provider', system: 'system' } as const;

interface Invitation {
  name: string;
  email: string;
  roleId: string | null;
  partnerId: string | null;
  orgId: string | null;
  orgAccess: 'all' | 'selected' | 'none';
  orgIds: readonly string[];
}

/** Invites a person into a provider, or into one of its organizations: the role decides which. */
function InviteDialog({
  onClose,
  onInvited,
}: {
  onClose: () => void;
  onInvited: (invitation: { email: string; url: string }) => void;
}) {
  const me = useMe();
  const roles = useRoles();
  const providers = useProviders() ?? [];
  const names = useNames();
  const all = useOrganizations();
  const form = useForm<Invitation>({
    name: '',
    email: '',
    roleId: null,
    partnerId: null,
    orgId: null,
    orgAccess: 'all',
    orgIds: [],
  });
  const { name, email, roleId, orgId, orgAccess, orgIds } = form.values;
  const partnerId = form.values.partnerId ?? (providers.length === 1 ? providers[0]?.id : undefined);
  const invite = useApiChange('POST /users/invite', { refreshes: ['GET /users'] });
  const scope = roles.find(({ id }) => id === roleId)?.scope;
  const isOfSystem = me.scope === 'system';
  const organizations =
    scope === 'partner' && isOfSystem ? all.filter((each) => each.partnerId === partnerId) : all;
  const choices = organizations.map(({ id, name: label, partnerId: of }) => ({
    value: id,
    label:
      isOfSystem && scope === 'organization' && providers.length > 1
        ? `${label} (${names.provider(of)})`
        : label,
  }));
  const submit = async () => {
    const { inviteUrl } = await invite.mutateAsync({
      body: {
        name,
        email: email.trim(),
        roleId: roleId ?? '',
        ...(scope === 'organization' && orgId !== null ? { orgId } : {}),
        ...(scope === 'partner' && isOfSystem && partnerId !== undefined ? { partnerId } : {}),
        ...(scope === 'partner' ? { orgAccess } : {}),
        ...(scope === 'partner' && orgAccess === 'selected' ? { orgIds: [...orgIds] } : {}),
      },
    });
    onInvited({ email, url: inviteUrl });
  };
  return (
    <FormDialog
      title="Invite a person"
      onClose={onClose}
      submit={submit}
      submitLabel="Send the invitation"
      form={form}
      fields={[
        { name: 'name', label: 'Name', required: true },
        { name: 'email', kind: 'email', label: 'E-mail address', required: true },
        {
          name: 'roleId',
          kind: 'choice',
          label: 'Role',
          description:
            'It decides what the person may do, and whether they belong to the provider or to a customer.',
          required: true,
          isSearchable: true,
          options: roles.map(({ id, name: label, scope: of }) => ({
            value: id,
            label: me.scope === 'organization' ? label : `${label} (${SCOPE_WORDS[of]})`,
          })),
          empty: null,
        },
        scope === 'partner' &&
          isOfSystem && {
            name: 'partnerId',
            kind: 'choice',
            label: 'Provider',
            description:
              providers.length === 0 ? 'There is no provider yet. Create one under Providers.' : undefined,
            required: true,
            isSearchable: true,
            options: choicesOf(providers),
            shown: partnerId,
            empty: null,
            resets: { orgIds: [] },
          },
        scope === 'organization' &&
          me.scope !== 'organization' && {
            name: 'orgId',
            kind: 'choice',
            label: 'Organization',
            required: true,
            isSearchable: true,
            options: choices,
            empty: null,
          },
        scope === 'partner' && { name: 'orgAccess', kind: 'choice', label: 'Access', options: ACCESS },
        scope === 'partner' &&
          orgAccess === 'selected' && {
            name: 'orgIds',
            kind: 'choices',
            label: 'Organizations',
            options: choices,
          },
      ]}
    />
  );
}

/** Changes the name, the role and whether the person may sign in. */
function ChangeUserDialog({ user, onClose }: { user: User; onClose: () => void }) {
  const { id, name, roleId } = user;
  const roles = useRoles(user.scope);
  const status = user.status === 'disabled' ? 'disabled' : 'active';
  const form = useForm<{ name: string; roleId: string; status: 'active' | 'disabled' }>({
    name,
    roleId,
    status,
  });
  const change = useApiChange('PATCH /users/{id}', { refreshes: ['GET /users'] });
  const giveRole = useApiChange('POST /users/{id}/role', { refreshes: ['GET /users'] });
  const submit = async () => {
    const next = form.values;
    if (next.roleId !== roleId) {
      await giveRole.mutateAsync({ params: { id }, body: { roleId: next.roleId } });
    }
    const body = {
      ...(next.name === name ? {} : { name: next.name }),
      ...(next.status === status ? {} : { status: next.status }),
    };
    if (Object.keys(body).length > 0) await change.mutateAsync({ params: { id }, body });
  };
  return (
    <FormDialog
      title={`Change ${name}`}
      onClose={onClose}
      submit={submit}
      submitLabel="Save"
      form={form}
      fields={[
        { name: 'name', label: 'Name', required: true },
        { name: 'roleId', kind: 'choice', label: 'Role', isSearchable: true, options: choicesOf(roles) },
        user.status !== 'invited' && {
          name: 'status',
          kind: 'choice',
          label: 'Access',
          options: [
            { value: 'active', label: 'May sign in' },
            { value: 'disabled', label: 'May not sign in; all sessions end' },
          ],
        },
      ]}
    />
  );
}

const NONE: readonly Role[] = [];

/** The roles that the person can see, for choices. */
function useRoles(scope?: Role['scope']): readonly Role[] {
  const { data } = useQuery(apiQuery('GET /roles', { query: { limit: '100', scope } }));
  return data?.data ?? NONE;
}
