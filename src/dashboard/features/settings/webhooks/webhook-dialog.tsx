import { Select, Switch, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useApiChange, type Webhook } from '../../../api/index.ts';
import { useOrganizations } from '../../../directory/index.ts';
import { useScope } from '../../../routing/index.ts';
import { useMe } from '../../../session/index.ts';
import { FormDialog } from '../../../ui/index.ts';
import { EventTypeChoice } from './event-type-choice.tsx';
import { WEBHOOK_READS } from './webhook-reads.ts';

const ALL = 'all';

/** Makes a webhook, or changes one. */
export function WebhookDialog({
  webhook,
  onClose,
  onMade,
}: {
  webhook?: Webhook;
  onClose: () => void;
  onMade?: (secret: string) => void;
}) {
  const me = useMe();
  const { orgId } = useScope();
  const organizations = useOrganizations();
  const [owner, setOwner] = useState<string>(orgId ?? me.orgId ?? ALL);
  const [name, setName] = useState(webhook?.name ?? '');
  const [url, setUrl] = useState(webhook?.url ?? '');
  const [eventTypes, setEventTypes] = useState<Webhook['eventTypes']>(webhook?.eventTypes ?? []);
  const [enabled, setEnabled] = useState(webhook?.enabled ?? true);
  const create = useApiChange('POST /webhooks', { refreshes: WEBHOOK_READS });
  const change = useApiChange('PATCH /webhooks/{id}', { refreshes: WEBHOOK_READS });
  const isOfPartner = webhook === undefined ? owner === ALL : webhook.orgId === null;
  const submit = async () => {
    if (webhook !== undefined) {
      await change.mutateAsync({
        params: { id: webhook.id },
        // Who may not read all of its events may still rename it.
        body: {
          name,
          enabled,
          ...(url === webhook.url ? {} : { url }),
          ...(eventTypes.join() === webhook.eventTypes.join() ? {} : { eventTypes }),
        },
      });
      return;
    }
    const made = await create.mutateAsync({
      body: { name, url, eventTypes, ...(owner === ALL ? {} : { orgId: owner }) },
    });
    onMade?.(made.secret);
  };
  return (
    <FormDialog
      opened
      size="lg"
      title={webhook === undefined ? 'New webhook' : `Change “${webhook.name}”`}
      onClose={onClose}
      submit={submit}
      submitLabel={webhook === undefined ? 'Create webhook' : 'Save'}
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
            label="URL"
            description="It must begin with https:// and have a public address."
            placeholder="https://hooks.example.com/muster"
            required
            value={url}
            onChange={(event) => setUrl(event.currentTarget.value)}
            error={faults['url']}
          />
          {webhook === undefined && me.scope !== 'organization' && (
            <Select
              label="Organization"
              allowDeselect={false}
              searchable
              data={[
                ...(me.scope === 'partner' ? [{ value: ALL, label: 'All organizations' }] : []),
                ...organizations.map(({ id, name: label }) => ({ value: id, label })),
              ]}
              value={owner}
              onChange={(chosen) => setOwner(chosen ?? owner)}
              error={faults['orgId']}
            />
          )}
          <EventTypeChoice
            value={eventTypes}
            onChange={setEventTypes}
            isOfPartner={isOfPartner}
            error={faults['eventTypes']}
          />
          {webhook !== undefined && (
            <Switch
              label="Enabled"
              description="While it is disabled, events are not kept for it."
              checked={enabled}
              onChange={(event) => setEnabled(event.currentTarget.checked)}
            />
          )}
        </>
      )}
    </FormDialog>
  );
}
