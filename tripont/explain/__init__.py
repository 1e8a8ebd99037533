"""``tripont explain``: one HTML page that shows the whole way of a program.

:mod:`.dump_folder` reads what a compilation dumped, :mod:`.artifact_input` makes the same of an
artifact alone; :mod:`.report` puts together what the page shows, with :mod:`.hlo_text`,
:mod:`.code_text`, :mod:`.layout` (the drawn graph) and :mod:`.measure` (the timeline); :mod:`.page`
writes it into one file with the style and the scripts of the folder ``assets``.
"""
