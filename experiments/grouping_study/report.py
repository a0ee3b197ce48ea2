from experiment_shell import html_page
def write_report(run): html_page.write_page(run.join("report.html"),"a","b")
