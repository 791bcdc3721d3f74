import { lazy } from 'react';

export { OrganizationTerminals } from './organization-terminals.tsx';

/** The emulator of terminals is loaded when the tab is opened. */
export const TerminalTab = lazy(async () => ({ default: (await import('./terminal-tab.tsx')).TerminalTab }));
