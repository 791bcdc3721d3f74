import { Panel } from '../../../ui/index.ts';
import { Anchor } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { BreachTable } from '../sla/breach-table.tsx';

const SHOWN = 8;

export function SlaEvents({ orgId }: { orgId: string | undefined }) {
  return (
    <Panel title="Breaches of SLAs">
      <BreachTable orgId={orgId} limit={SHOWN} />
      <Anchor size="sm" renderRoot={(props) => <Link {...props} to="/backup/slas" />}>
        SLAs and all breaches
      </Anchor>
    </Panel>
  );
}
