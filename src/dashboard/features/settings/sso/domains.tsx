import { Select, Stack, Text, TextInput, Title, Group } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, useApiChange, type SsoDomain } from '../../../api/index.ts';
import { useNames, useOrganizations } from '../../../directory/index.ts';
import { useScope } from '../../../routing/index.ts';
import { useMe, useRefusal } from '../../../session/index.ts';
import {
  Action,
  ConfirmAction,
  CopyText,
  Empty,
  Failure,
  FormDialog,
  Loaded,
  PagedTable,
  StateBadge,
  When,
} from '../../../ui/index.ts';
import { SSO_WRITE } from './sso-permissions.ts';

/** Mail domains that an organization has proved to own. */
export function Domains() {
  const { orgId } = useScope();
  const names = useNames();
  const refusal = useRefusal(SSO_WRITE);
  const [isAdding, setAdding] = useState(false);
  const domains = useQuery(apiQuery('GET /sso/domains', { query: { orgId, limit: '100' } }));
  const verify = useApiChange('POST /sso/domains/{id}/verify', { refreshes: ['GET /sso/domains'] });
  const remove = useApiChange('DELETE /sso/domains/{id}', { refreshes: ['GET /sso/domains'] });
  const add = (
    <Action
      size="xs"
      variant="default"
      refusal={refusal}
      leftSection={<IconPlus size={14} aria-hidden />}
      onClick={() => setAdding(true)}
    >
      New domain
    </Action>
  );
  return (
    <Stack gap="xs" component="section" aria-label="Domains">
      <Group justify="space-between">
        <Title order={2} size="h5">
          Domains
        </Title>
        {add}
      </Group>
      {verify.error !== null && <Failure error={verify.error} />}
      <Loaded query={domains} what="Reading domains">
        {({ data }) =>
          data.length === 0 ? (
            <Empty title="No domains">
              With a DNS record, an organization proves that a mail domain is its own.
            </Empty>
          ) : (
            <PagedTable
              label="Domains"
              rows={data}
              keyOf={({ id }) => id}
              columns={[
                { header: 'Domain', isName: true, cell: ({ domain }) => domain },
                { header: 'Organization', cell: (domain) => names.organization(domain.orgId) },
                { header: 'State', cell: (domain) => <DomainState domain={domain} /> },
                {
                  header: 'DNS record',
                  cell: ({ record, domain }) => (
                    <Stack gap={4}>
                      <Text size="xs">{record.type} record with this name and value:</Text>
                      <CopyText label={`Name of the record of ${domain}`} text={record.name} />
                      <CopyText label={`Value of the record of ${domain}`} text={record.value} />
                    </Stack>
                  ),
                },
                {
                  header: 'Actions',
                  align: 'right',
                  cell: ({ id, domain }) => (
                    <>
                      <Action
                        size="compact-xs"
                        variant="subtle"
                        refusal={refusal}
                        loading={verify.isPending && verify.variables.params.id === id}
                        onClick={() => verify.mutate({ params: { id } })}
                      >
                        Verify
                      </Action>
                      <ConfirmAction
                        size="compact-xs"
                        variant="subtle"
                        refusal={refusal}
                        title={`Delete ${domain}`}
                        question="The organization has to prove it again before it counts as its own."
                        confirm="Delete"
                        run={() => remove.mutateAsync({ params: { id } })}
                      >
                        Delete
                      </ConfirmAction>
                    </>
                  ),
                },
              ]}
            />
          )
        }
      </Loaded>
      {isAdding && <NewDomainDialog onClose={() => setAdding(false)} />}
    </Stack>
  );
}

function DomainState({ domain: { status, verifiedAt, failingSince } }: { domain: SsoDomain }) {
  if (status === 'pending') return <StateBadge tone="neutral" label="Pending" />;
  return (
    <>
      {failingSince === null ? (
        <StateBadge tone="good" label="Verified" />
      ) : (
        <StateBadge tone="warning" label="Record is gone" title="Put the record back into the DNS." />
      )}
      <Text size="xs">
        <When at={failingSince ?? verifiedAt} />
      </Text>
    </>
  );
}

function NewDomainDialog({ onClose }: { onClose: () => void }) {
  const me = useMe();
  const scope = useScope();
  const organizations = useOrganizations();
  const [chosen, setOrgId] = useState<string | null>(scope.orgId ?? me.orgId ?? null);
  const orgId = chosen ?? (organizations.length === 1 ? (organizations[0]?.id ?? null) : null);
  const [domain, setDomain] = useState('');
  const create = useApiChange('POST /sso/domains', { refreshes: ['GET /sso/domains'] });
  return (
    <FormDialog
      opened
      title="New domain"
      onClose={onClose}
      submit={() =>
        create.mutateAsync({ body: { domain: domain.trim(), ...(orgId === null ? {} : { orgId }) } })
      }
      submitLabel="Create domain"
    >
      {(faults) => (
        <>
          {me.scope !== 'organization' && (
            <Select
              label="Organization"
              required
              searchable
              data={organizations.map(({ id, name }) => ({ value: id, label: name }))}
              value={orgId}
              onChange={setOrgId}
              error={faults['orgId']}
            />
          )}
          <TextInput
            label="Domain"
            description="The part behind the @ of mail addresses."
            placeholder="example.com"
            required
            data-autofocus
            value={domain}
            onChange={(event) => setDomain(event.currentTarget.value)}
            error={faults['domain']}
          />
        </>
      )}
    </FormDialog>
  );
}
