import { ActionIcon, Group, Text, Tooltip } from '@mantine/core';
import { IconArrowDown, IconArrowUp } from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { call, type NotificationPolicy } from '../../api/index.ts';
import { asError, Failure } from '../../ui/index.ts';
import { POLICY_READS } from './reads.ts';

/** The place of a policy among those of its owner, and its way up and down. */
export function MovePolicy({
  policy,
  isLast,
  refusal,
  say,
}: {
  policy: NotificationPolicy;
  isLast: boolean;
  refusal: string | undefined;
  /** Tells readers of screens what has happened. */
  say: (text: string) => void;
}) {
  const { name, position } = policy;
  const queries = useQueryClient();
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<Error>();
  const buttons = { up: useRef<HTMLButtonElement>(null), down: useRef<HTMLButtonElement>(null) };
  const move = async (direction: 'up' | 'down') => {
    setBusy(true);
    setError(undefined);
    try {
      const place = await moved(policy, direction === 'up' ? -1 : 1);
      await Promise.all(POLICY_READS.map((read) => queries.invalidateQueries({ queryKey: [read] })));
      if (place !== undefined) say(`“${name}” is now at place ${place + 1}.`);
    } catch (thrown) {
      setError(asError(thrown));
    } finally {
      setBusy(false);
    }
    // The row has moved with its buttons, by which some browsers take the focus from them.
    buttons[direction].current?.focus();
  };
  const button = (direction: 'up' | 'down', end: string | undefined) => {
    const Icon = direction === 'up' ? IconArrowUp : IconArrowDown;
    const why = refusal ?? end;
    return (
      <Tooltip label={why ?? `Move ${direction}`} events={{ hover: true, focus: true, touch: true }}>
        <ActionIcon
          ref={buttons[direction]}
          variant="subtle"
          size="sm"
          aria-label={`Move “${name}” ${direction}`}
          {...(why === undefined
            ? { onClick: () => void (isBusy || move(direction)) }
            : { 'data-disabled': true, 'aria-disabled': true, 'aria-description': why })}
        >
          <Icon size={14} aria-hidden />
        </ActionIcon>
      </Tooltip>
    );
  };
  return (
    <>
      <Group gap={2} wrap="nowrap">
        <Text size="sm" miw={16}>
          {position + 1}
        </Text>
        {button('up', position === 0 ? 'It is the first already.' : undefined)}
        {button('down', isLast ? 'It is the last already.' : undefined)}
      </Group>
      {error !== undefined && <Failure error={error} />}
    </>
  );
}

/** Moves a policy by one place in the order that there is now, and returns its new place. */
async function moved({ id, orgId }: NotificationPolicy, by: 1 | -1): Promise<number | undefined> {
  const { data } = await call('GET /notification-policies', {
    query: { limit: '100', ...(orgId === null ? { ofPartner: 'true' } : { orgId }) },
  });
  const policyIds = data.map((policy) => policy.id);
  const from = policyIds.indexOf(id);
  const to = from + by;
  if (from < 0 || to < 0 || to >= policyIds.length) return undefined;
  policyIds.splice(from, 1);
  policyIds.splice(to, 0, id);
  await call('PUT /notification-policies/order', {
    body: { ...(orgId === null ? {} : { orgId }), policyIds },
  });
  return to;
}
