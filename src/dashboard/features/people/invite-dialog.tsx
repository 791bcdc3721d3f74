import { MultiSelect, Select, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useApiChange } from '../../api/index.ts';
import { useOrganizations } from '../../directory/index.ts';
import { useMe } from '../../session/index.ts';
import { FormDialog } from '../../ui/index.ts';
import { useRoles } from './use-roles.ts';

const ACCESS: readonly { value: 'all' | 'selected' | 'none'; label: string }[] = [
  { value: 'all', label: 'All organizations' },
  { value: 'selected', label: 'Chosen organizations' },
  { value: 'none', label: 'No organization' },
];

/** Invites a colleague of the provider, or somebody of one customer: the role decides which. */
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
  const organizations = useOrganizations();
  const [name, setName] = useState('');
  const [email, setEmail] = useState('');
  const [roleId, setRoleId] = useState<string | null>(null);
  const [orgId, setOrgId] = useState<string | null>(null);
  const [access, setAccess] = useState<string | null>('all');
  const [orgIds, setOrgIds] = useState<string[]>([]);
  const invite = useApiChange('POST /users/invite', { refreshes: ['GET /users'] });
  const scope = roles.find(({ id }) => id === roleId)?.scope;
  const orgAccess = ACCESS.find(({ value }) => value === access)?.value;
  const choices = organizations.map(({ id, name: label }) => ({ value: id, label }));
  const submit = async () => {
    const { inviteUrl } = await invite.mutateAsync({
      body: {
        name,
        email: email.trim(),
        roleId: roleId ?? '',
        ...(scope === 'organization' && orgId !== null ? { orgId } : {}),
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
            type="email"
            required
            value={email}
            onChange={(event) => setEmail(event.currentTarget.value)}
            error={faults['email']}
          />
          <Select
            label="Role"
            description="It decides what the person may do, and whether they belong to you or to a customer."
            required
            searchable
            data={roles.map(({ id, name: label, scope: of }) => ({
              value: id,
              label:
                me.scope === 'organization'
                  ? label
                  : `${label} (${of === 'organization' ? 'customer' : 'provider'})`,
            }))}
            value={roleId}
            onChange={setRoleId}
            error={faults['roleId']}
          />
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
              label="May see"
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
