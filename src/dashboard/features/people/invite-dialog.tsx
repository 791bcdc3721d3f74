import { MultiSelect, Select, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useApiChange } from '../../api/index.ts';
import { useNames, useOrganizations, useProviders } from '../../directory/index.ts';
import { useMe } from '../../session/index.ts';
import { EMAIL_INPUT, FormDialog } from '../../ui/index.ts';
import { useRoles } from './use-roles.ts';

const ACCESS: readonly { value: 'all' | 'selected' | 'none'; label: string }[] = [
  { value: 'all', label: 'All organizations' },
  { value: 'selected', label: 'Chosen organizations' },
  { value: 'none', label: 'No organization' },
];

const SCOPE_WORDS = { organization: 'customer', partner: 'provider', system: 'system' } as const;

/** Invites a person into a provider, or into one of its organizations: the role decides which. */
export function InviteDialog({
  opened,
  onClose,
  onInvited,
}: {
  opened: boolean;
  onClose: () => void;
  onInvited: (invitation: { email: string; url: string }) => void;
}) {
  const me = useMe();
  const roles = useRoles();
  const providers = useProviders() ?? [];
  const names = useNames();
  const [chosenProvider, setProvider] = useState<string | null>(null);
  const partnerId = chosenProvider ?? (providers.length === 1 ? (providers[0]?.id ?? null) : null);
  const all = useOrganizations();
  const [name, setName] = useState('');
  const [email, setEmail] = useState('');
  const [roleId, setRoleId] = useState<string | null>(null);
  const [orgId, setOrgId] = useState<string | null>(null);
  const [access, setAccess] = useState<string | null>('all');
  const [orgIds, setOrgIds] = useState<string[]>([]);
  const invite = useApiChange('POST /users/invite', { refreshes: ['GET /users'] });
  const scope = roles.find(({ id }) => id === roleId)?.scope;
  const orgAccess = ACCESS.find(({ value }) => value === access)?.value;
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
        ...(scope === 'partner' && isOfSystem && partnerId !== null ? { partnerId } : {}),
        ...(scope === 'partner' && orgAccess !== undefined ? { orgAccess } : {}),
        ...(scope === 'partner' && access === 'selected' ? { orgIds } : {}),
      },
    });
    onInvited({ email, url: inviteUrl });
  };
  return (
    <FormDialog
      title="Invite a person"
      opened={opened}
      onClose={onClose}
      submit={submit}
      submitLabel="Send the invitation"
    >
      {(faults) => (
        <>
          <TextInput
            label="Name"
            required
            data-autofocus
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={faults['name']}
          />
          <TextInput
            label="E-mail address"
            {...EMAIL_INPUT}
            required
            value={email}
            onChange={(event) => setEmail(event.currentTarget.value)}
            error={faults['email']}
          />
          <Select
            label="Role"
            description="It decides what the person may do, and whether they belong to the provider or to a customer."
            required
            searchable
            data={roles.map(({ id, name: label, scope: of }) => ({
              value: id,
              label: me.scope === 'organization' ? label : `${label} (${SCOPE_WORDS[of]})`,
            }))}
            value={roleId}
            onChange={setRoleId}
            error={faults['roleId']}
          />
          {scope === 'partner' && isOfSystem && (
            <Select
              label="Provider"
              description={
                providers.length === 0 ? 'There is no provider yet. Create one under Providers.' : undefined
              }
              required
              searchable
              data={providers.map(({ id, name: label }) => ({ value: id, label }))}
              value={partnerId}
              onChange={(value) => {
                setProvider(value);
                setOrgIds([]);
              }}
              error={faults['partnerId']}
            />
          )}
          {scope === 'organization' && me.scope !== 'organization' && (
            <Select
              label="Organization"
              required
              searchable
              data={choices}
              value={orgId}
              onChange={setOrgId}
              error={faults['orgId']}
            />
          )}
          {scope === 'partner' && (
            <Select
              label="Access"
              data={[...ACCESS]}
              allowDeselect={false}
              value={access}
              onChange={setAccess}
              error={faults['orgAccess']}
            />
          )}
          {scope === 'partner' && access === 'selected' && (
            <MultiSelect
              label="Organizations"
              searchable
              data={choices}
              value={orgIds}
              onChange={setOrgIds}
              error={faults['orgIds']}
            />
          )}
        </>
      )}
    </FormDialog>
  );
}
