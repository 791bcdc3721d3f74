import { Checkbox, Stack, Tooltip } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery, type WebhookEventType } from '../../../api/index.ts';
import { refusalOf, useMe } from '../../../session/index.ts';
import { formatWord, Loaded } from '../../../ui/index.ts';

type Name = WebhookEventType['name'];

/** Which events are sent. What a person may not read stays visible and says why. */
export function EventTypeChoice({
  value,
  onChange,
  isOfPartner,
  error,
}: {
  value: readonly Name[];
  onChange: (names: Name[]) => void;
  isOfPartner: boolean;
  error?: string | undefined;
}) {
  const me = useMe();
  const types = useQuery({
    ...apiQuery('GET /webhooks/event-types'),
    staleTime: Number.POSITIVE_INFINITY,
  });
  return (
    <Loaded query={types} what="Reading the types of events">
      {({ data }) => (
        <Checkbox.Group
          label="Events"
          required
          value={[...value]}
          onChange={(picked) =>
            onChange(data.map(({ name }) => name).filter((name) => picked.includes(name)))
          }
          error={error}
        >
          <Stack gap={6} mt={4}>
            {data.map(({ name, description, permission, isOfPartner: needsPartner }) => {
              const refusal =
                needsPartner && !isOfPartner
                  ? 'Only webhooks for all organizations can have it.'
                  : refusalOf(me, permission);
              const box = (
                <Checkbox
                  key={name}
                  value={name}
                  label={`${formatWord(name)} (${name})`}
                  description={refusal === undefined ? description : `${description} ${refusal}`}
                  disabled={refusal !== undefined}
                />
              );
              return refusal === undefined ? (
                box
              ) : (
                <Tooltip key={name} label={refusal}>
                  <div>{box}</div>
                </Tooltip>
              );
            })}
          </Stack>
        </Checkbox.Group>
      )}
    </Loaded>
  );
}
