import { TextInput } from '@mantine/core';
import { useState } from 'react';
import { useApiChange } from '../../../api/index.ts';
import { FormDialog } from '../../../ui/index.ts';
import { OrganizationSelect, useFirstOrganization } from '../parts/organization-select.tsx';

export function NewKeyDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const first = useFirstOrganization();
  const [chosen, setOrg] = useState<string>();
  const [name, setName] = useState('');
  const create = useApiChange('POST /backup/encryption/keys', { refreshes: ['GET /backup/encryption/keys'] });
  const orgId = chosen ?? first;
  return (
    <FormDialog
      title="New encryption key"
      opened={opened}
      onClose={onClose}
      submitLabel="Make the key"
      submit={() => create.mutateAsync({ body: { orgId: orgId ?? '', name } })}
    >
      {(faults) => (
        <>
          <OrganizationSelect value={orgId} onChange={setOrg} error={faults['orgId']} />
          <TextInput
            label="Name"
            description="The server makes the key and never shows it. The recovery kit has what restic needs."
            required
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={faults['name']}
            data-autofocus
          />
        </>
      )}
    </FormDialog>
  );
}
